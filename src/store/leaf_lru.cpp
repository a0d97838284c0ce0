// SPDX-License-Identifier: Apache-2.0
#include "store/leaf_lru.h"

namespace isthmus {

void LeafLru::add(const BlockKey& key, const BlockKey& parent, uint64_t bytes, uint64_t tick) {
  const bool added = items_.emplace(key, Item{parent, bytes, tick}).second;
  ISTHMUS_CHECK(added);
  bytes_ += bytes;
  if (is_leaf(key)) leaves_.emplace(tick, key);
  if (++children_[parent] > 1) return;
  const auto it = items_.find(parent);
  if (it != items_.end()) leaves_.erase({it->second.tick, parent});
}

void LeafLru::touch(const BlockKey& key, uint64_t tick) {
  const auto it = items_.find(key);
  if (it == items_.end()) return;
  if (leaves_.erase({it->second.tick, key}) != 0) leaves_.emplace(tick, key);
  it->second.tick = tick;
}

void LeafLru::remove(const BlockKey& key) {
  const auto it = items_.find(key);
  if (it == items_.end()) return;
  const Item item = it->second;
  leaves_.erase({item.tick, key});
  items_.erase(it);
  bytes_ -= item.bytes;
  const auto siblings = children_.find(item.parent);
  if (--siblings->second > 0) return;
  children_.erase(siblings);
  const auto parent = items_.find(item.parent);
  if (parent != items_.end()) leaves_.emplace(parent->second.tick, item.parent);
}

std::optional<BlockKey> LeafLru::oldest_leaf(const Filter& may_go) const {
  for (const auto& [tick, key] : leaves_) {
    if (may_go(key)) return key;
  }
  return std::nullopt;
}

std::optional<BlockKey> LeafLru::oldest(const Filter& may_go) const {
  std::optional<BlockKey> best;
  uint64_t best_tick = 0;
  for (const auto& [key, item] : items_) {
    if ((!best || item.tick < best_tick) && may_go(key)) {
      best = key;
      best_tick = item.tick;
    }
  }
  return best;
}

}  // namespace isthmus
