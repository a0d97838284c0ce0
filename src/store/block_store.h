// SPDX-License-Identifier: Apache-2.0
// The block store: content-keyed blocks of finished cache in memory and, with a directory, on disk. A block
// is visible as soon as it was put and durable some time later; a reply never waits for durable. Any thread
// may call; one thread of its own writes to disk. Readers hold leases (shared pointers), so nothing they use
// goes away. Not a place for live sequences (model/kv_pool.h). Files: docs/formats/block.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/fs.h"
#include "base/sync.h"
#include "flow/prefix_store.h"
#include "store/block_file.h"
#include "store/block_table.h"
#include "store/leaf_lru.h"
#include "store/prefix_search.h"
#include "store/ram_tier.h"
#include "store/ssd_tier.h"
#include "store/store_stats.h"
#include "store/write_queue.h"

namespace isthmus {

struct BlockStoreOptions {
  uint64_t ram_bytes = uint64_t{1} << 30;  // a long conversation of a small model, or one prompt of a big one
  std::filesystem::path directory;         // empty: memory only
  uint64_t disk_quota_bytes = uint64_t{20} << 30;   // files of all identities in the directory
  uint64_t disk_floor_bytes = uint64_t{2} << 30;    // writes stop while less would stay free
  uint64_t memory_floor_bytes = uint64_t{1} << 30;  // puts are refused while less is available
  uint64_t write_queue_bytes = uint64_t{256}
                               << 20;  // waiting for the disk; beyond it blocks stay in memory only
  // Kinds that a lookup without `only` may return, most wanted first.
  std::vector<SourceKind> accepted = {SourceKind::kNative, SourceKind::kProject};
  Fs* fs = nullptr;  // null: the operating system's; else it outlives the store
  std::function<uint64_t()> available_memory = available_memory_bytes;  // 0: unknown, no floor
};

// What blocks take in each tier.
struct TierBytes {
  uint64_t ram = 0;
  uint64_t disk = 0;  // 0 without a directory
};

class BlockStore final : public PrefixStore {
 public:
  // Errors: kUnavailable (another process has the directory), kIo, kInvalidArgument (layout).
  static Result<std::unique_ptr<BlockStore>> create(BlockStoreOptions options, PlaneLayout layout,
                                                    const Digest& identity);
  ~BlockStore() override;  // writes what is queued; no sink or lookup may be running

  const PlaneLayout& layout() const override { return context_.layout; }
  const Digest& identity() const override { return context_.identity; }
  // Both also look for files beyond the end of a known chain that another process wrote, and check and adopt
  // them: no cost but a failed stat per chain when there are none.
  int64_t cached_tokens(std::span<const TokenId> ids, int64_t limit, const Source* only) override;
  CachedPrefix longest_prefix(std::span<const TokenId> ids, int64_t limit, const Source* only) override;
  // By budget and quota; a disk that is slow, or full of other files, may hold less.
  int64_t storable_tokens(int64_t tokens) const override;
  // put() also gives kNotFound when the parent block is not here (any more).
  std::unique_ptr<RowSink> open_chain(ChainSpec spec) override;

  TierBytes chain_bytes(int64_t tokens) const;  // of a chain of that length, wholly in either tier
  StoreStats stats() const;
  void flush();                                   // until everything put so far is durable, or failed
  uint64_t purge_source(const Digest& producer);  // removes all that one producer wrote; number of blocks

 private:
  BlockStore(BlockStoreOptions options, BlockContext context);
  Status open_disk();

  // Room (block_store_room.cpp).
  TierBytes block_bytes(int64_t first, int64_t last) const;

  // Lookups (block_store.cpp).
  PrefixPlan plan(std::span<const TokenId> ids, int64_t limit, const Source* only, const KeySet& excluded);
  PrefixPlan plan_known(std::span<const TokenId> ids, int64_t limit, const Source* only,
                        const KeySet& excluded);
  bool collect(const PrefixPlan& plan, KeySet& excluded, CachedPrefix& out);
  BlockPtr fetch(const BlockKey& key);
  void count_lookup(const CachedPrefix& found);

  // Memory (block_store.cpp).
  Status insert(const BlockPtr& block);
  Status check_parent(const Block& block) const REQUIRES(mutex_);
  bool make_ram_room(uint64_t bytes, uint64_t overrun_bytes) REQUIRES(mutex_);
  void enqueue(BlockTable::Entry& entry, const BlockPtr& block) REQUIRES(mutex_);
  void use(const BlockKey& key, uint64_t tick) REQUIRES(mutex_);

  // Disk (block_store_disk.cpp).
  void write_loop();
  void make_durable(const Block& block);
  bool above_floor(uint64_t bytes) REQUIRES(files_mutex_);
  bool make_disk_room(uint64_t bytes, const Block* coming) REQUIRES(files_mutex_);
  KeySet ancestors_of(const Block& block) const REQUIRES(mutex_);
  void finish_write(const Block& block, const Result<uint64_t>& written) REQUIRES(files_mutex_);
  void forget_file(const BlockKey& key) REQUIRES(mutex_);
  Result<BlockPtr> read_file_of(const BlockKey& key, int64_t first) const;
  BlockPtr read_again(const BlockKey& key, int64_t first);
  bool adopt_beyond(const std::vector<ChainEnd>& ends, std::span<const TokenId> ids, int64_t limit,
                    const KeySet& excluded);
  bool known(const BlockKey& key) const;
  bool adopt(const BlockKey& key, int64_t first);
  void persist_uses();

  const BlockStoreOptions options_;
  const BlockContext context_;
  const BlockKey root_;
  PosixFs posix_fs_;
  Fs& fs_;
  std::unique_ptr<SsdTier> ssd_;  // null: memory only. Fixed after create()
  WriteQueue queue_;

  // Serializes changes to files and index; taken before mutex_ and held over disk writes, so never by a put
  // or a lookup that finds what it wants.
  mutable Mutex files_mutex_;
  bool below_floor_ GUARDED_BY(files_mutex_) = false;
  bool writes_failing_ GUARDED_BY(files_mutex_) = false;

  mutable Mutex mutex_;  // never held over disk or memory-floor reads
  BlockTable table_ GUARDED_BY(mutex_);
  RamTier ram_ GUARDED_BY(mutex_);
  LeafLru disk_ GUARDED_BY(mutex_);  // files and their sizes
  std::unordered_map<BlockKey, uint64_t, DigestHash> unsaved_uses_ GUARDED_BY(mutex_);
  uint64_t tick_ GUARDED_BY(mutex_) = 0;
  StoreStats stats_ GUARDED_BY(mutex_);

  std::thread writer_;  // last: joined before anything it uses goes
};

}  // namespace isthmus
