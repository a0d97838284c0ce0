// SPDX-License-Identifier: Apache-2.0
#include "base/fs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace isthmus {
namespace {

constexpr size_t kTextPiece = size_t{64} << 10;  // of a file whose size is not asked for

Status io_error(std::string_view what, const std::filesystem::path& path) {
  const int error = errno;
  const Code code = error == ENOSPC || error == EDQUOT ? Code::kResourceExhausted
                    : error == ENOENT                  ? Code::kNotFound
                                                       : Code::kIo;
  return {code, std::string(what) + " " + path.string() + ": " + std::strerror(error)};
}

int open_retry(const std::filesystem::path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

Status write_all(int fd, std::span<const std::byte> data, const std::filesystem::path& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("write", path);
    data = data.subspan(static_cast<size_t>(n));
  }
  return {};
}

FileStamp stamp_of(const struct stat& st) {
#ifdef __APPLE__
  const struct timespec& modified = st.st_mtimespec;
#else
  const struct timespec& modified = st.st_mtim;
#endif
  return {static_cast<uint64_t>(st.st_size),
          static_cast<int64_t>(modified.tv_sec) * 1'000'000'000 + modified.tv_nsec,
          static_cast<uint64_t>(st.st_ino)};
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& o) noexcept {
  if (this != &o) {
    reset();
    fd_ = o.release();
  }
  return *this;
}
int UniqueFd::release() {
  return std::exchange(fd_, -1);
}
void UniqueFd::reset() {
  if (fd_ >= 0) ::close(release());
}

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const UniqueFd fd(open_retry(path, O_RDONLY));
  if (!fd.valid()) return io_error("open", path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return io_error("stat", path);
  if (!S_ISREG(st.st_mode)) return Status(Code::kInvalidArgument, path.string() + ": not a regular file");
  const auto size = static_cast<size_t>(st.st_size);
  if (size == 0) return MappedFile(nullptr, stamp_of(st));
  void* const p = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) return io_error("map", path);
  return MappedFile(static_cast<const std::byte*>(p), stamp_of(st));
}
MappedFile::MappedFile(MappedFile&& o) noexcept
    : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)), stamp_(o.stamp_) {}
MappedFile& MappedFile::operator=(MappedFile&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  std::swap(stamp_, o.stamp_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Status PosixFs::write_file(const std::filesystem::path& path,
                           std::span<const std::span<const std::byte>> parts) {
  const UniqueFd fd(open_retry(path, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  if (!fd.valid()) return io_error("create", path);
  for (const auto& part : parts) TRY(write_all(fd.get(), part, path));
  if (::fsync(fd.get()) != 0) return io_error("fsync", path);
  return {};
}

Status PosixFs::rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  return ::rename(from.c_str(), to.c_str()) == 0 ? Status() : io_error("rename", from);
}

Status PosixFs::sync_directory(const std::filesystem::path& path) {
  const UniqueFd fd(open_retry(path, O_RDONLY | O_DIRECTORY));
  if (!fd.valid()) return io_error("open", path);
  return ::fsync(fd.get()) == 0 ? Status() : io_error("fsync", path);
}

Status PosixFs::remove(const std::filesystem::path& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Status() : io_error("remove", path);
}

Result<Bytes> PosixFs::read_file(const std::filesystem::path& path) {
  const UniqueFd fd(open_retry(path, O_RDONLY));
  if (!fd.valid()) return io_error("open", path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return io_error("stat", path);
  Bytes bytes(static_cast<size_t>(st.st_size) +
              1);  // one more: the read that finds the end; pipes have size 0
  size_t done = 0;
  while (true) {
    if (done == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
    const ssize_t n = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

Result<uint64_t> PosixFs::free_bytes(const std::filesystem::path& directory) {
  struct statvfs st {};
  if (::statvfs(directory.c_str(), &st) != 0) return io_error("statvfs", directory);
  return static_cast<uint64_t>(st.f_bavail) * st.f_frsize;
}

namespace {

// A rename would replace a device or a pipe by a plain file.
Status check_replaceable(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) return {};
  return {Code::kInvalidArgument,
          path.string() + ": expected a file or nothing there, got " +
              (std::filesystem::is_directory(found) ? "a folder" : "a device or pipe")};
}

}  // namespace

Status write_file_durably(Fs& fs, const std::filesystem::path& path,
                          std::span<const std::span<const std::byte>> parts) {
  TRY(check_replaceable(path));
  std::filesystem::path temp = path;
  temp += ".tmp";
  Status status = fs.write_file(temp, parts);
  if (status.ok()) status = fs.rename(temp, path);
  if (!status.ok()) {
    (void)fs.remove(temp);
    return status;
  }
  return fs.sync_directory(path.parent_path());
}

Result<NewFile> NewFile::create(std::filesystem::path path) {
  TRY(check_replaceable(path));
  std::filesystem::path temp = path;
  temp += ".tmp";
  UniqueFd fd(open_retry(temp, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  if (!fd.valid()) return io_error("create", temp);
  return NewFile(std::move(path), std::move(temp), std::move(fd));
}

NewFile::~NewFile() {
  if (fd_.valid()) ::unlink(temp_.c_str());
}

Status NewFile::append(std::span<const std::byte> data) {
  return write_all(fd_.get(), data, temp_);
}

Status NewFile::finish() {
  if (::rename(temp_.c_str(), path_.c_str()) != 0) return io_error("rename", temp_);
  fd_.reset();
  return {};
}

std::filesystem::path resolved_path(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path canonical = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::absolute(path) : canonical;
}

Result<FileStamp> file_stamp(const std::filesystem::path& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return io_error("stat", path);
  return stamp_of(st);
}

Result<std::string> read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  const UniqueFd fd(open_retry(path, O_RDONLY));
  if (!fd.valid()) return io_error("open", path);
  std::string text;
  while (text.size() <= max_bytes) {
    const size_t before = text.size();
    text.resize(std::min(before + kTextPiece, max_bytes + 1));
    const ssize_t n = ::read(fd.get(), text.data() + before, text.size() - before);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("read", path);
    if (n == 0) return text;
  }
  return Status(Code::kResourceExhausted,
                path.string() + ": more than " + std::to_string(max_bytes) + " bytes");
}

Status make_directories(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) return {};
  if (path.has_parent_path() && path.parent_path() != path) TRY(make_directories(path.parent_path()));
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? Status() : io_error("mkdir", path);
}

Result<FileLock> FileLock::acquire(const std::filesystem::path& path) {
  UniqueFd fd(open_retry(path, O_RDWR | O_CREAT, 0600));
  if (!fd.valid()) return io_error("open", path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      return Status(Code::kUnavailable, path.string() + ": another process holds the lock");
    return io_error("lock", path);
  }
  return FileLock(std::move(fd));
}

uint64_t available_memory_bytes() {
  std::ifstream in("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (in >> key >> kib >> unit) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  in >> total_pages >> resident_pages;
  return resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace isthmus
