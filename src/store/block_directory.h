// SPDX-License-Identifier: Apache-2.0
// The block files of one identity: <root>/<first two hex digits>/<key>.isb, and <root>/quarantine for damaged
// ones. Files appear whole (temp, fsync, rename, fsync of the directory) or not at all. Reading may happen on
// any thread; changes are serialized by the caller. Knows no index and no quota.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "store/block_file.h"

namespace isthmus {

class BlockDirectory {
 public:
  // Borrows both. open() creates the folders.
  BlockDirectory(std::filesystem::path root, Fs& fs, const BlockContext& context)
      : root_(std::move(root)), fs_(fs), context_(context) {}
  Status open();

  std::filesystem::path path_of(const BlockKey& key) const;
  bool exists(const BlockKey& key) const;

  // Durable when ok; bytes of the file. On error nothing is left behind. Errors: kIo, kResourceExhausted.
  Result<uint64_t> write(const Block& block);
  // Read and checked completely. Errors: kNotFound, kIo (not readable now), kCorrupt, kUnsupported,
  // kMismatch.
  Result<BlockPtr> read(const BlockKey& key) const;
  // The header alone, checked; also that the file is as long as it says.
  Result<BlockHeader> read_header(const std::filesystem::path& path) const;
  Status remove(const BlockKey& key) { return fs_.remove(path_of(key)); }
  // Moves a damaged file aside for whoever investigates, at most kMaxQuarantined of them (then it is
  // removed). False, and nothing done, when `why` is no damage (not readable now, not there).
  bool quarantine(const std::filesystem::path& path, const Status& why);

  struct File {
    std::filesystem::path path;
    std::optional<BlockKey> key;  // none: not named like a block (a temporary file)
    uint64_t bytes = 0;
  };
  std::vector<File> list() const;  // in the two-digit folders

  static constexpr size_t kMaxQuarantined = 64;

 private:
  const std::filesystem::path root_;
  Fs& fs_;
  const BlockContext& context_;
};

// Key of a block file's name, without its folder.
std::optional<BlockKey> key_of_file_name(std::string_view name);

}  // namespace isthmus
