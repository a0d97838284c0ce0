// SPDX-License-Identifier: Apache-2.0
// The disk half of the block store: opening, the writer thread, quota and floor, damage, adoption, purge.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/block_store.h"

namespace isthmus {

Status BlockStore::open_disk() {
  MutexLock files(files_mutex_);
  ASSIGN_OR_RETURN(ssd_, SsdTier::open(options_.directory, fs_, context_));
  {
    MutexLock lock(mutex_);
    for (IndexRow& row : ssd_->take_found()) {
      tick_ = std::max(tick_, row.last_use);
      disk_.add(row.info.key, row.info.parent, row.file_bytes, row.last_use);
      table_.add(std::move(row.info)).disk = DiskState::kStored;
    }
    stats_.quarantined = ssd_->damaged_at_open();
  }
  (void)make_disk_room(0, nullptr);  // the quota may be smaller than last time
  writer_ = std::thread([this] { write_loop(); });
  return {};
}

BlockStore::~BlockStore() {
  queue_.close();
  if (writer_.joinable()) writer_.join();
  persist_uses();
}

void BlockStore::flush() {
  queue_.wait_idle();
  persist_uses();
  MutexLock lock(mutex_);
  (void)make_ram_room(0, 0);
}

void BlockStore::write_loop() {
  while (BlockPtr block = queue_.pop()) {
    make_durable(*block);
    block.reset();
    {
      MutexLock lock(mutex_);
      (void)make_ram_room(0, 0);  // blocks that waited for this may leave memory now
    }
    persist_uses();
    queue_.done();
  }
}

void BlockStore::make_durable(const Block& block) {
  MutexLock files(files_mutex_);
  uint64_t tick = 0;
  {
    MutexLock lock(mutex_);
    BlockTable::Entry* entry = table_.find(block.key);
    if (entry == nullptr || entry->disk != DiskState::kQueued) return;  // purged meanwhile
    tick = tick_;
  }
  const uint64_t bytes = ssd_->file_bytes_of(block);
  const bool above = above_floor(bytes);
  if (above && make_disk_room(bytes, &block)) {
    finish_write(block, ssd_->write(block, tick));
    return;
  }
  MutexLock lock(mutex_);
  ++(above ? stats_.dropped_writes : stats_.floor_skipped_writes);
  BlockTable::Entry* entry = table_.find(block.key);
  entry->disk = DiskState::kNone;
  entry->unwritten = !above;
}

void BlockStore::finish_write(const Block& block, const Result<uint64_t>& written) {
  if (!written.ok() && !writes_failing_) {
    log_warn("store: block writes fail, going on in memory: {}", written.status().message());
  }
  writes_failing_ = !written.ok();
  MutexLock lock(mutex_);
  BlockTable::Entry* entry = table_.find(block.key);
  if (!written.ok()) {
    ++stats_.failed_writes;
    entry->disk = DiskState::kNone;
    entry->unwritten = true;
    return;
  }
  ++stats_.disk_writes;
  entry->disk = DiskState::kStored;
  disk_.add(block.key, block.parent, *written, tick_);
}

bool BlockStore::above_floor(uint64_t bytes) {
  const auto free = ssd_->free_bytes();
  const bool below = free && *free < options_.disk_floor_bytes + bytes;
  if (below && !below_floor_) {
    log_warn("store: {} MB of disk left, block writes stop until there is more", *free / 1'000'000);
  }
  if (!below && below_floor_) log_info("store: block writes resume");
  below_floor_ = below;
  return !below;
}

// Until `bytes` more fit into the quota: other identities first, then leaves, least recently used first, but
// no ancestor of `coming`: a chain larger than the quota keeps its beginning.
bool BlockStore::make_disk_room(uint64_t bytes, const Block* coming) {
  for (;;) {
    BlockKey victim;
    uint64_t own_bytes = 0;
    {
      MutexLock lock(mutex_);
      own_bytes = disk_.bytes() + bytes;
    }
    if (own_bytes + ssd_->foreign_bytes() <= options_.disk_quota_bytes) return true;
    if (ssd_->drop_oldest_foreign()) continue;
    {
      MutexLock lock(mutex_);
      const KeySet keep = coming != nullptr ? ancestors_of(*coming) : KeySet();
      const auto leaf = disk_.oldest_leaf([&keep](const BlockKey& key) { return keep.count(key) == 0; });
      if (!leaf) return false;
      victim = *leaf;
      forget_file(victim);
      ++stats_.evicted_disk;
    }
    ssd_->remove(victim);
  }
}

KeySet BlockStore::ancestors_of(const Block& block) const {
  KeySet keys;
  const BlockTable::Entry* entry = table_.find(block.parent);
  while (entry != nullptr && keys.insert(entry->info.key).second) entry = table_.find(entry->info.parent);
  return keys;
}

void BlockStore::forget_file(const BlockKey& key) {
  disk_.remove(key);
  unsaved_uses_.erase(key);
  BlockTable::Entry* entry = table_.find(key);
  if (entry == nullptr) return;
  entry->disk = DiskState::kNone;
  table_.remove_if_gone(key);
}

Result<BlockPtr> BlockStore::read_file_of(const BlockKey& key, int64_t first) const {
  ASSIGN_OR_RETURN(BlockPtr block, ssd_->read(key));
  if (block->first_token != first) {
    return Status(Code::kCorrupt, "block " + key.hex() + ": starts elsewhere in its chain");
  }
  return block;
}

// A lookup reads without a lock, so what it could not read may be gone and written anew by now: nothing is
// thrown away before it was read again where nobody changes it.
BlockPtr BlockStore::read_again(const BlockKey& key, int64_t first) {
  MutexLock files(files_mutex_);
  {
    MutexLock lock(mutex_);
    if (BlockPtr block = ram_.find(key)) return block;
    if (!disk_.contains(key)) return nullptr;  // forgotten by another lookup
  }
  auto read = read_file_of(key, first);
  if (read.ok()) return read.take();
  const bool damaged = ssd_->quarantine(key, read.status());
  if (!damaged && read.status().code() != Code::kNotFound) {
    log_warn("store: cannot read a block now: {}", read.status().message());
    return nullptr;
  }
  if (!damaged) ssd_->remove(key);  // its row
  MutexLock lock(mutex_);
  if (damaged) ++stats_.quarantined;
  forget_file(key);
  return nullptr;
}

bool BlockStore::adopt_beyond(const std::vector<ChainEnd>& ends, std::span<const TokenId> ids, int64_t limit,
                              const KeySet& excluded) {
  bool adopted = false;
  for (const ChainEnd& end : ends) {
    BlockKey parent = end.parent;
    int64_t count = 0;
    for (int64_t a = end.first; a < limit; a += count) {
      count = std::min<int64_t>(context_.layout.block_tokens, limit - a);  // the last may be a partial tail
      const auto block_ids = ids.subspan(static_cast<size_t>(a), static_cast<size_t>(count));
      const BlockKey key = block_key(parent, end.source, block_ids);
      if (!known(key)) {
        if (excluded.count(key) != 0 || !ssd_->exists(key) || !adopt(key, a)) break;
        adopted = true;
      }
      parent = key;
    }
  }
  return adopted;
}

bool BlockStore::known(const BlockKey& key) const {
  MutexLock lock(mutex_);
  return table_.find(key) != nullptr;
}

// A file that this process did not write: checked like any other, then registered.
bool BlockStore::adopt(const BlockKey& key, int64_t first) {
  MutexLock files(files_mutex_);
  auto read = read_file_of(key, first);
  if (!read.ok()) {
    if (ssd_->quarantine(key, read.status())) {
      MutexLock lock(mutex_);
      ++stats_.quarantined;
    }
    return false;
  }
  const BlockPtr block = read.take();
  uint64_t tick = 0;
  {
    MutexLock lock(mutex_);
    if (table_.find(key) != nullptr) return true;
    tick = ++tick_;
  }
  ssd_->record(*block, tick);
  MutexLock lock(mutex_);
  if (BlockTable::Entry* entry = table_.find(key)) {  // put while the row was written
    if (entry->disk == DiskState::kNone) {
      entry->disk = DiskState::kStored;
      disk_.add(key, block->parent, ssd_->file_bytes_of(*block), tick);
    }
    return true;
  }
  disk_.add(key, block->parent, ssd_->file_bytes_of(*block), tick);
  BlockTable::Entry& entry = table_.add(BlockInfo::of(*block));
  entry.disk = DiskState::kStored;
  ++stats_.adopted;
  if (make_ram_room(block_memory_bytes(*block), 0)) {
    ram_.add(block, tick);
    entry.in_ram = true;
  }
  return true;
}

uint64_t BlockStore::purge_source(const Digest& producer) {
  MutexLock files(files_mutex_);
  std::vector<BlockKey> keys;
  std::vector<BlockKey> stored;
  {
    MutexLock lock(mutex_);
    keys = table_.keys_of_producer(producer);
    for (const BlockKey& key : keys) {
      if (disk_.contains(key)) stored.push_back(key);
      disk_.remove(key);
      ram_.remove(key);
      unsaved_uses_.erase(key);
      table_.remove(key);
    }
    stats_.purged += keys.size();
  }
  for (const BlockKey& key : stored) ssd_->remove(key);
  return keys.size();
}

void BlockStore::persist_uses() {
  if (ssd_ == nullptr) return;
  MutexLock files(files_mutex_);
  std::vector<std::pair<BlockKey, uint64_t>> uses;
  {
    MutexLock lock(mutex_);
    uses.assign(unsaved_uses_.begin(), unsaved_uses_.end());
    unsaved_uses_.clear();
  }
  ssd_->touch(uses);
}

}  // namespace isthmus
