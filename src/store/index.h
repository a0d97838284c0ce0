// SPDX-License-Identifier: Apache-2.0
// The SQLite index beside the block files: what a start would otherwise have to read from every header, and
// when each block was last used. Never the truth: rebuilt from the files when lost or damaged. One thread at
// a time. The only file that calls SQLite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "store/block_table.h"

namespace isthmus {

struct IndexRow {
  BlockInfo info;
  uint64_t file_bytes = 0;
  uint64_t last_use = 0;  // the store's use counter
};

class Index {
 public:
  // Opens or creates the file. Errors: kCorrupt (not a database, another version: the caller deletes it and
  // opens again), kIo.
  static Result<Index> open(const std::filesystem::path& path);
  static void delete_files(const std::filesystem::path& path);
  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();

  // Rows whose key does not follow from their own parent, source and ids are left out.
  Result<std::vector<IndexRow>> load();
  Status put(const IndexRow& row);
  Status remove(const BlockKey& key);
  // One transaction.
  Status touch(std::span<const std::pair<BlockKey, uint64_t>> uses);

 private:
  struct Impl;
  explicit Index(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
