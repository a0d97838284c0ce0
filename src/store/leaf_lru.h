// SPDX-License-Identifier: Apache-2.0
// Order of eviction of one tier: least recently used first, leaves before parents, so that what stays is
// always a usable prefix. Keys and sizes only, no blocks. Owned by a tier, guarded by the store's mutex.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "flow/block.h"

namespace isthmus {

class LeafLru {
 public:
  using Filter = std::function<bool(const BlockKey&)>;

  // `tick`: the store's use counter; larger is more recent. The key must not be here yet.
  void add(const BlockKey& key, const BlockKey& parent, uint64_t bytes, uint64_t tick);
  void touch(const BlockKey& key, uint64_t tick);  // no effect when absent
  void remove(const BlockKey& key);                // no effect when absent
  bool contains(const BlockKey& key) const { return items_.count(key) != 0; }

  // The least recently used item without children here, or of all items, that passes the filter.
  std::optional<BlockKey> oldest_leaf(const Filter& may_go) const;
  std::optional<BlockKey> oldest(const Filter& may_go) const;

  uint64_t bytes() const { return bytes_; }
  size_t size() const { return items_.size(); }

 private:
  struct Item {
    BlockKey parent;
    uint64_t bytes = 0;
    uint64_t tick = 0;
  };
  bool is_leaf(const BlockKey& key) const { return children_.count(key) == 0; }

  std::unordered_map<BlockKey, Item, DigestHash> items_;
  std::unordered_map<BlockKey, int, DigestHash> children_;  // by parent, whether or not that is here
  std::set<std::pair<uint64_t, BlockKey>> leaves_;          // oldest first
  uint64_t bytes_ = 0;
};

}  // namespace isthmus
