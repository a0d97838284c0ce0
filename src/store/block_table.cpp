// SPDX-License-Identifier: Apache-2.0
#include "store/block_table.h"

#include <utility>

namespace isthmus {

BlockTable::Entry& BlockTable::add(BlockInfo info) {
  const BlockKey key = info.key;
  children_[info.parent].push_back(key);
  if (info.source.kind != SourceKind::kNative) ++bridged_[info.source];
  const auto [it, added] = entries_.emplace(key, Entry{std::move(info)});
  ISTHMUS_CHECK(added);
  return it->second;
}

BlockTable::Entry* BlockTable::find(const BlockKey& key) {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

const BlockTable::Entry* BlockTable::find(const BlockKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

void BlockTable::remove(const BlockKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  const BlockInfo& info = it->second.info;
  const auto siblings = children_.find(info.parent);
  std::erase(siblings->second, key);
  if (siblings->second.empty()) children_.erase(siblings);
  const auto source = bridged_.find(info.source);
  if (source != bridged_.end() && --source->second == 0) bridged_.erase(source);
  entries_.erase(it);
}

void BlockTable::remove_if_gone(const BlockKey& key) {
  const Entry* entry = find(key);
  if (entry != nullptr && !entry->in_ram && entry->disk == DiskState::kNone) remove(key);
}

std::span<const BlockKey> BlockTable::children(const BlockKey& parent) const {
  const auto it = children_.find(parent);
  if (it == children_.end()) return {};
  return it->second;
}

std::vector<Source> BlockTable::bridged_sources() const {
  std::vector<Source> sources;
  sources.reserve(bridged_.size());
  for (const auto& [source, count] : bridged_) sources.push_back(source);
  return sources;
}

std::vector<BlockKey> BlockTable::keys_of_producer(const Digest& producer) const {
  std::vector<BlockKey> keys;
  for (const auto& [key, entry] : entries_) {
    const Source& source = entry.info.source;
    if (source.kind != SourceKind::kNative && source.producer == producer) keys.push_back(key);
  }
  return keys;
}

}  // namespace isthmus
