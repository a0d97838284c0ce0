// SPDX-License-Identifier: Apache-2.0
// The durable tier: <directory>/<identity>/ with its block files and SQLite index, locked against other
// processes. Publishes last: file, then index. Reading and exists() on any thread; everything else is
// serialized by the caller. What to evict is the store's decision.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fs.h"
#include "store/block_directory.h"
#include "store/index.h"

namespace isthmus {

class SsdTier {
 public:
  // Takes the lock, opens the index (a damaged one is rebuilt) and reconciles it with the files: files
  // without a row are added, rows without a file dropped, temporary files removed, damaged files quarantined.
  // Borrows both references. Errors: kUnavailable (another process has the directory), kIo.
  static Result<std::unique_ptr<SsdTier>> open(const std::filesystem::path& directory, Fs& fs,
                                               const BlockContext& context);

  std::vector<IndexRow> take_found() { return std::move(found_); }  // blocks on disk at open
  uint64_t damaged_at_open() const { return damaged_at_open_; }

  bool exists(const BlockKey& key) const { return blocks_.exists(key); }
  Result<BlockPtr> read(const BlockKey& key) const { return blocks_.read(key); }

  // File, then index; bytes of the file. On error nothing is left behind.
  Result<uint64_t> write(const Block& block, uint64_t tick);
  // A row for a good file that is already there.
  void record(const Block& block, uint64_t tick);
  void remove(const BlockKey& key);
  bool quarantine(const BlockKey& key, const Status& why);  // false: `why` is no damage
  void touch(std::span<const std::pair<BlockKey, uint64_t>> uses);

  std::optional<uint64_t> free_bytes();  // of the file system; nullopt when unknown
  uint64_t file_bytes_of(const Block& block) const;
  uint64_t file_bytes_of(size_t tokens, size_t transfer_id_bytes, size_t plane_bytes) const;

  // Blocks of other identities in the same directory count against the quota and go first.
  uint64_t foreign_bytes() const;
  bool drop_oldest_foreign();  // false when there is none

 private:
  struct Foreign {
    std::filesystem::path path;
    uint64_t bytes = 0;
    std::filesystem::file_time_type last_use;
  };
  SsdTier(const std::filesystem::path& directory, Fs& fs, const BlockContext& context, FileLock lock);
  Status open_index();
  Status reconcile();
  void scan_foreign();
  void index_result(const Status& status);

  const std::filesystem::path directory_;
  const std::filesystem::path root_;
  Fs& fs_;
  const BlockContext& context_;
  FileLock lock_;
  BlockDirectory blocks_;
  std::optional<Index> index_;
  std::vector<IndexRow> indexed_;  // rows as loaded, until reconciled
  std::vector<IndexRow> found_;
  std::vector<Foreign> foreign_;  // least recently used last
  uint64_t damaged_at_open_ = 0;
  bool index_failing_ = false;
};

// Removes all block files in `directory` that `producer` wrote, for every identity; the number of them. For
// tools, while no store has the directory open. Errors: kUnavailable, kNotFound, kIo.
Result<uint64_t> purge_source_files(const std::filesystem::path& directory, const Digest& producer);

}  // namespace isthmus
