// SPDX-License-Identifier: Apache-2.0
#include "store/block_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "store/chain_sink.h"

namespace isthmus {

Result<std::unique_ptr<BlockStore>> BlockStore::create(BlockStoreOptions options, PlaneLayout layout,
                                                       const Digest& identity) {
  ASSIGN_OR_RETURN(PlaneLayout checked, PlaneLayout::from_json(layout.to_json()));
  const bool on_disk = !options.directory.empty();
  BlockContext context = BlockContext::of(identity, std::move(checked));
  std::unique_ptr<BlockStore> store(new BlockStore(std::move(options), std::move(context)));
  if (on_disk) TRY(store->open_disk());
  return store;
}

BlockStore::BlockStore(BlockStoreOptions options, BlockContext context)
    : options_(std::move(options)),
      context_(std::move(context)),
      root_(root_key(context_.identity)),
      fs_(options_.fs != nullptr ? *options_.fs : posix_fs_),
      queue_(options_.write_queue_bytes),
      ram_(options_.ram_bytes) {}

int64_t BlockStore::cached_tokens(std::span<const TokenId> ids, int64_t limit, const Source* only) {
  return plan(ids, limit, only, {}).tokens;
}

CachedPrefix BlockStore::longest_prefix(std::span<const TokenId> ids, int64_t limit, const Source* only) {
  KeySet excluded;
  CachedPrefix found;
  // Each round without success excludes one more block, so this ends.
  while (!collect(plan(ids, limit, only, excluded), excluded, found)) {
  }
  count_lookup(found);
  return found;
}

PrefixPlan BlockStore::plan(std::span<const TokenId> ids, int64_t limit, const Source* only,
                            const KeySet& excluded) {
  limit = std::clamp<int64_t>(limit, 0, static_cast<int64_t>(ids.size()));
  PrefixPlan plan = plan_known(ids, limit, only, excluded);
  while (ssd_ != nullptr && plan.tokens < limit && adopt_beyond(plan.ends, ids, limit, excluded)) {
    plan = plan_known(ids, limit, only, excluded);
  }
  return plan;
}

PrefixPlan BlockStore::plan_known(std::span<const TokenId> ids, int64_t limit, const Source* only,
                                  const KeySet& excluded) {
  const auto& kinds = options_.accepted;
  PrefixQuery query;
  query.ids = ids;
  query.limit = limit;
  query.native = std::find(kinds.begin(), kinds.end(), SourceKind::kNative) != kinds.end();
  query.excluded = &excluded;
  MutexLock lock(mutex_);
  if (only != nullptr) {
    if (only->kind != SourceKind::kNative) query.bridged.push_back(*only);
  } else {
    const std::vector<Source> sources = table_.bridged_sources();
    for (const SourceKind kind : kinds) {
      std::copy_if(sources.begin(), sources.end(), std::back_inserter(query.bridged),
                   [kind](const Source& s) { return s.kind == kind; });
    }
  }
  return plan_prefix(table_, context_.layout, root_, query);
}

bool BlockStore::collect(const PrefixPlan& plan, KeySet& excluded, CachedPrefix& out) {
  std::vector<BlockPtr> blocks(plan.keys.size());
  {
    MutexLock lock(mutex_);  // held first: reading one block must not push another of the plan out of memory
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = ram_.find(plan.keys[i]);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] == nullptr) blocks[i] = fetch(plan.keys[i]);
    if (blocks[i] == nullptr) {
      excluded.insert(plan.keys[i]);
      return false;
    }
  }
  out = {plan.tokens, std::move(blocks), plan.source};
  return true;
}

// From memory, or read and checked; null when it is neither here nor readable.
BlockPtr BlockStore::fetch(const BlockKey& key) {
  int64_t first = 0;
  {
    MutexLock lock(mutex_);
    const BlockTable::Entry* entry = table_.find(key);
    if (entry == nullptr) return nullptr;
    if (entry->in_ram) return ram_.find(key);
    first = entry->info.first_token;
  }
  auto read = read_file_of(key, first);
  const BlockPtr block = read.ok() ? read.take() : read_again(key, first);
  if (block == nullptr) return nullptr;
  MutexLock lock(mutex_);
  ++stats_.disk_reads;
  BlockTable::Entry* entry = table_.find(key);
  if (entry != nullptr && !entry->in_ram && make_ram_room(block_memory_bytes(*block), 0)) {
    ram_.add(block, ++tick_);
    entry->in_ram = true;
  }
  return block;
}

void BlockStore::count_lookup(const CachedPrefix& found) {
  MutexLock lock(mutex_);
  const uint64_t tick = ++tick_;
  for (const BlockPtr& block : found.blocks) {
    use(block->key, tick);
    BlockTable::Entry* entry = table_.find(block->key);
    if (entry != nullptr && entry->in_ram && entry->unwritten) enqueue(*entry, block);
  }
  ++(found.tokens > 0 ? stats_.hits : stats_.misses);
  stats_.hit_tokens += static_cast<uint64_t>(found.tokens);
}

void BlockStore::use(const BlockKey& key, uint64_t tick) {
  ram_.touch(key, tick);
  if (!disk_.contains(key)) return;
  disk_.touch(key, tick);
  unsaved_uses_[key] = tick;
}

std::unique_ptr<RowSink> BlockStore::open_chain(ChainSpec spec) {
  return std::make_unique<ChainSink>(std::move(spec), context_.layout,
                                     [this](const BlockPtr& block) { return insert(block); });
}

Status BlockStore::insert(const BlockPtr& block) {
  const uint64_t available = options_.memory_floor_bytes > 0 ? options_.available_memory() : 0;
  const bool memory_low = available > 0 && available < options_.memory_floor_bytes;
  MutexLock lock(mutex_);
  const uint64_t tick = ++tick_;
  BlockTable::Entry* entry = table_.find(block->key);
  const bool duplicate = entry != nullptr;
  if (duplicate) {
    ++stats_.duplicates;
    use(block->key, tick);
    if (entry->in_ram) {
      enqueue(*entry, ram_.find(block->key));
      return {};
    }
  } else {
    TRY(check_parent(*block));
  }
  const BlockPtr parent = ram_.find(block->parent);  // held: must not make room for its own child
  const uint64_t overrun_bytes = ssd_ != nullptr ? options_.write_queue_bytes : 0;
  if (memory_low || !make_ram_room(block_memory_bytes(*block), overrun_bytes)) {
    if (duplicate) return {};  // the disk has it
    ++stats_.refused_puts;
    return {Code::kResourceExhausted,
            memory_low ? "store: " + std::to_string(available) + " bytes of memory left, below the floor"
                       : "store: memory is full of blocks that are being read or that others build on"};
  }
  if (!duplicate) {
    entry = &table_.add(BlockInfo::of(*block));
    ++stats_.puts;
  }
  entry->in_ram = true;
  ram_.add(block, tick);
  enqueue(*entry, block);
  return {};
}

Status BlockStore::check_parent(const Block& block) const {
  int64_t parent_end = 0;
  if (block.parent != root_) {
    const BlockTable::Entry* parent = table_.find(block.parent);
    if (parent == nullptr) {
      return {Code::kNotFound, "store: parent block " + block.parent.hex().substr(0, 8) + " is not here"};
    }
    const Source& source = parent->info.source;
    if (source.kind != SourceKind::kNative && source != block.source) {
      return {Code::kInvalidArgument,
              "store: a " + block.source.to_string() + " block cannot follow " + source.to_string()};
    }
    parent_end = parent->info.last_token();
  }
  if (parent_end != block.first_token) {
    return {Code::kInvalidArgument, "store: block starts at " + std::to_string(block.first_token) +
                                        ", its parent ends at " + std::to_string(parent_end)};
  }
  return {};
}

bool BlockStore::make_ram_room(uint64_t bytes, uint64_t overrun_bytes) {
  const LeafLru* files = &disk_;
  const auto durable = [files](const BlockKey& key) { return files->contains(key); };
  for (const BlockKey& key : ram_.make_room(bytes, durable)) {
    table_.find(key)->in_ram = false;
    table_.remove_if_gone(key);
    ++stats_.evicted_ram;
  }
  return ram_.fits(bytes, overrun_bytes);
}

void BlockStore::enqueue(BlockTable::Entry& entry, const BlockPtr& block) {
  if (ssd_ == nullptr || entry.disk != DiskState::kNone) return;
  entry.unwritten = !queue_.push(block);
  if (entry.unwritten) {
    ++stats_.dropped_writes;
  } else {
    entry.disk = DiskState::kQueued;
  }
}

StoreStats BlockStore::stats() const {
  MutexLock lock(mutex_);
  StoreStats s = stats_;
  s.ram_blocks = ram_.size();
  s.ram_bytes = ram_.bytes();
  s.disk_blocks = disk_.size();
  s.disk_bytes = disk_.bytes();
  s.queued_bytes = queue_.bytes();
  return s;
}

}  // namespace isthmus
