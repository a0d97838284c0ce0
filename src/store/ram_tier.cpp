// SPDX-License-Identifier: Apache-2.0
#include "store/ram_tier.h"

namespace isthmus {

uint64_t block_memory_bytes(size_t tokens, size_t plane_bytes) {
  return plane_bytes + tokens * sizeof(TokenId);
}

uint64_t block_memory_bytes(const Block& block) {
  return block_memory_bytes(block.ids.size(), block.planes.size());
}

BlockPtr RamTier::find(const BlockKey& key) const {
  const auto it = blocks_.find(key);
  return it == blocks_.end() ? nullptr : it->second;
}

std::vector<BlockKey> RamTier::make_room(uint64_t bytes,
                                         const std::function<bool(const BlockKey&)>& durable) {
  std::vector<BlockKey> gone;
  while (!fits(bytes, 0)) {
    auto victim = order_.oldest_leaf([this](const BlockKey& key) { return !held_elsewhere(key); });
    if (!victim) {
      victim = order_.oldest([&](const BlockKey& key) { return !held_elsewhere(key) && durable(key); });
    }
    if (!victim) break;
    remove(*victim);
    gone.push_back(*victim);
  }
  return gone;
}

bool RamTier::fits(uint64_t bytes, uint64_t overrun_bytes) const {
  return order_.bytes() + bytes <= budget_bytes_ + overrun_bytes;
}

void RamTier::add(BlockPtr block, uint64_t tick) {
  const BlockKey key = block->key;
  order_.add(key, block->parent, block_memory_bytes(*block), tick);
  blocks_.emplace(key, std::move(block));
}

void RamTier::remove(const BlockKey& key) {
  order_.remove(key);
  blocks_.erase(key);
}

}  // namespace isthmus
