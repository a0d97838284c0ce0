// SPDX-License-Identifier: Apache-2.0
// Blocks held in memory under a byte budget. Readers and the disk writer hold blocks by shared pointer, and
// what somebody holds is never evicted: memory that cannot be freed stays counted. Guarded by the store's
// mutex.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "flow/block.h"
#include "store/leaf_lru.h"

namespace isthmus {

// What a block costs in memory: planes and ids, without the few bytes of bookkeeping.
uint64_t block_memory_bytes(size_t tokens, size_t plane_bytes);
uint64_t block_memory_bytes(const Block& block);

class RamTier {
 public:
  explicit RamTier(uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  BlockPtr find(const BlockKey& key) const;  // null when absent
  // Evicts until `bytes` more fit into the budget, or nothing more may go: leaves that nobody holds, least
  // recently used first; then also parents, but only those that are `durable` (a reader finds them on disk).
  // Returns what went.
  std::vector<BlockKey> make_room(uint64_t bytes, const std::function<bool(const BlockKey&)>& durable);
  // Whether `bytes` more stay within the budget and `overrun_bytes` beyond it.
  bool fits(uint64_t bytes, uint64_t overrun_bytes) const;
  void add(BlockPtr block, uint64_t tick);  // not here yet; does not evict
  void touch(const BlockKey& key, uint64_t tick) { order_.touch(key, tick); }
  void remove(const BlockKey& key);

  uint64_t bytes() const { return order_.bytes(); }
  size_t size() const { return blocks_.size(); }

 private:
  bool held_elsewhere(const BlockKey& key) const { return blocks_.at(key).use_count() > 1; }

  const uint64_t budget_bytes_;
  std::unordered_map<BlockKey, BlockPtr, DigestHash> blocks_;
  LeafLru order_;
};

}  // namespace isthmus
