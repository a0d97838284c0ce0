// SPDX-License-Identifier: Apache-2.0
// Files: RAII handles, mapped files, whole-file reads, and the durable-write sequence (temp, fsync, rename,
// fsync of the directory). `Fs` is the interface that the block store writes through, so that tests can
// inject short writes, full disks and lost syncs. All POSIX file calls of the project are here. Any thread;
// objects are not shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace isthmus {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& o) noexcept : fd_(o.release()) {}
  UniqueFd& operator=(UniqueFd&& o) noexcept;
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

// What changes when a file is replaced or written to.
struct FileStamp {
  uint64_t size = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};

// A read-only mapping of a whole file. The bytes stay valid while the object lives (a truncated file faults:
// model files and sealed block files are never shortened in place).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile(MappedFile&& o) noexcept;
  MappedFile& operator=(MappedFile&& o) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const FileStamp& stamp() const { return stamp_; }  // when it was mapped

 private:
  MappedFile(const std::byte* data, const FileStamp& stamp)
      : data_(data), size_(static_cast<size_t>(stamp.size)), stamp_(stamp) {}
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileStamp stamp_;
};

// What the block store needs from a file system.
class Fs {
 public:
  virtual ~Fs() = default;
  // Creates `path` (mode 0600) with these bytes and fsyncs it. Errors: kIo, kResourceExhausted (disk full).
  // On error the file may exist in part; the caller removes it.
  virtual Status write_file(const std::filesystem::path& path,
                            std::span<const std::span<const std::byte>> parts) = 0;
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  virtual Status sync_directory(const std::filesystem::path& path) = 0;
  virtual Status remove(const std::filesystem::path& path) = 0;  // ok when it does not exist
  virtual Result<Bytes> read_file(const std::filesystem::path& path) = 0;
  virtual Result<uint64_t> free_bytes(const std::filesystem::path& directory) = 0;
};

class PosixFs final : public Fs {
 public:
  Status write_file(const std::filesystem::path& path,
                    std::span<const std::span<const std::byte>> parts) override;
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status sync_directory(const std::filesystem::path& path) override;
  Status remove(const std::filesystem::path& path) override;
  Result<Bytes> read_file(const std::filesystem::path& path) override;
  Result<uint64_t> free_bytes(const std::filesystem::path& directory) override;
};

// temp file beside `path` → fsync → rename → fsync(dir). Whole or not at all. kInvalidArgument: there is
// something at `path` that is not a file.
Status write_file_durably(Fs& fs, const std::filesystem::path& path,
                          std::span<const std::span<const std::byte>> parts);

// A file written piece by piece: beside `path` under a temporary name until finish() renames it. Dropped
// before that, it is removed. Not synced: for what may be lost with the power. One thread.
class NewFile {
 public:
  static Result<NewFile> create(std::filesystem::path path);  // mode 0600
  NewFile(NewFile&& o) noexcept = default;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();
  Status append(std::span<const std::byte> data);  // errors as Fs::write_file
  Status finish();

 private:
  NewFile(std::filesystem::path path, std::filesystem::path temp, UniqueFd fd)
      : path_(std::move(path)), temp_(std::move(temp)), fd_(std::move(fd)) {}
  std::filesystem::path path_, temp_;
  UniqueFd fd_;  // invalid once finished
};

// Absolute and without links, as far as the path exists: one file, one name.
std::filesystem::path resolved_path(const std::filesystem::path& path);

Result<FileStamp> file_stamp(const std::filesystem::path& path);  // follows links

Result<std::string> read_text_file(const std::filesystem::path& path, size_t max_bytes);
Status make_directories(const std::filesystem::path& path);  // mode 0700 for those created

// An exclusive advisory lock on `path` (created), held while the object lives. kUnavailable when another
// process holds it.
class FileLock {
 public:
  static Result<FileLock> acquire(const std::filesystem::path& path);

 private:
  explicit FileLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// Memory the kernel says is available (MemAvailable), bytes; 0 when unknown. `resident_bytes`: of this
// process.
uint64_t available_memory_bytes();
uint64_t resident_bytes();

}  // namespace isthmus
