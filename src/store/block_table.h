// SPDX-License-Identifier: Apache-2.0
// What the store knows of every block it can serve, in memory or on disk: the tree that lookups walk. No
// plane bytes. Guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "flow/block.h"

namespace isthmus {

enum class DiskState : uint8_t { kNone, kQueued, kStored };

struct BlockInfo {
  BlockKey key;
  BlockKey parent;
  int64_t first_token = 0;
  std::vector<TokenId> ids;
  Source source;

  static BlockInfo of(const Block& block) {
    return {block.key, block.parent, block.first_token, block.ids, block.source};
  }
  int64_t last_token() const { return first_token + static_cast<int64_t>(ids.size()); }
};

class BlockTable {
 public:
  struct Entry {
    BlockInfo info;
    bool in_ram = false;
    DiskState disk = DiskState::kNone;
    bool unwritten = false;  // the disk was full, failing or too slow: tried again when the block is used
  };

  Entry& add(BlockInfo info);  // the key must not be here yet
  Entry* find(const BlockKey& key);
  const Entry* find(const BlockKey& key) const;
  void remove(const BlockKey& key);
  // Removes the entry when neither tier has the block any more.
  void remove_if_gone(const BlockKey& key);

  std::span<const BlockKey> children(const BlockKey& parent) const;  // in order of arrival
  std::vector<Source> bridged_sources() const;                       // of at least one block, ascending
  std::vector<BlockKey> keys_of_producer(const Digest& producer) const;
  size_t size() const { return entries_.size(); }

 private:
  std::unordered_map<BlockKey, Entry, DigestHash> entries_;
  std::unordered_map<BlockKey, std::vector<BlockKey>, DigestHash> children_;
  std::map<Source, size_t> bridged_;  // number of blocks
};

}  // namespace isthmus
