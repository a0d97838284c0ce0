// SPDX-License-Identifier: Apache-2.0
#include "store/block_directory.h"

#include <array>
#include <string>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "store/block_format.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;
constexpr std::string_view kQuarantine = "quarantine";

bool is_damage(Code code) {
  return code == Code::kCorrupt || code == Code::kUnsupported || code == Code::kMismatch;
}

bool is_two_hex(std::string_view name) {
  return name.size() == 2 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

size_t count_entries(const stdfs::path& folder) {
  size_t n = 0;
  std::error_code error;
  for (stdfs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++n;
  return n;
}

}  // namespace

std::optional<BlockKey> key_of_file_name(std::string_view name) {
  if (!name.ends_with(block_format::kExtension)) return std::nullopt;
  return Digest::from_hex(name.substr(0, name.size() - block_format::kExtension.size()));
}

Status BlockDirectory::open() {
  TRY(make_directories(root_ / kQuarantine));
  TRY(fs_.sync_directory(root_));
  return fs_.sync_directory(root_.parent_path());
}

stdfs::path BlockDirectory::path_of(const BlockKey& key) const {
  const std::string hex = key.hex();
  return root_ / hex.substr(0, 2) / (hex + std::string(block_format::kExtension));
}

bool BlockDirectory::exists(const BlockKey& key) const {
  return file_stamp(path_of(key)).ok();
}

Result<uint64_t> BlockDirectory::write(const Block& block) {
  const stdfs::path path = path_of(block.key);
  const stdfs::path folder = path.parent_path();
  std::error_code ignored;
  if (!stdfs::is_directory(folder, ignored)) {
    TRY(make_directories(folder));
    TRY(fs_.sync_directory(root_));
  }
  const Bytes header = encode_block_header(block, context_);
  const std::array<std::span<const std::byte>, 2> parts = {std::span(header), std::span(block.planes)};
  const Status status = write_file_durably(fs_, path, parts);
  if (!status.ok()) {
    (void)fs_.remove(path);  // renamed, but perhaps not durably
    return status;
  }
  return header.size() + block.planes.size();
}

Result<BlockPtr> BlockDirectory::read(const BlockKey& key) const {
  const stdfs::path path = path_of(key);
  ASSIGN_OR_RETURN(const Bytes bytes, fs_.read_file(path));
  ASSIGN_OR_RETURN(BlockPtr block, parse_block(bytes, context_, path.string()));
  if (block->key != key) return Status(Code::kCorrupt, path.string() + ": holds another block");
  return block;
}

Result<BlockHeader> BlockDirectory::read_header(const stdfs::path& path) const {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  ASSIGN_OR_RETURN(BlockHeader header, parse_block_header(file.bytes(), path.string()));
  TRY(check_block_header(header, context_, path.string()));
  if (file.bytes().size() != header.file_bytes()) {
    return Status(Code::kCorrupt, path.string() + ": " + std::to_string(file.bytes().size()) +
                                      " bytes, expected " + std::to_string(header.file_bytes()));
  }
  return header;
}

bool BlockDirectory::quarantine(const stdfs::path& path, const Status& why) {
  if (!is_damage(why.code())) return false;
  const stdfs::path folder = root_ / kQuarantine;
  const bool room = count_entries(folder) < kMaxQuarantined;
  log_warn("store: damaged block {}: {}", room ? "quarantined" : "removed", why.message());
  if (!room || !fs_.rename(path, folder / path.filename()).ok()) (void)fs_.remove(path);
  return true;
}

std::vector<BlockDirectory::File> BlockDirectory::list() const {
  std::vector<File> files;
  std::error_code error;
  for (stdfs::directory_iterator folder(root_, error), end; !error && folder != end;
       folder.increment(error)) {
    if (!is_two_hex(folder->path().filename().string())) continue;
    std::error_code inner;
    for (stdfs::directory_iterator it(folder->path(), inner); !inner && it != end; it.increment(inner)) {
      std::error_code no_size;
      const uint64_t bytes = it->file_size(no_size);
      if (no_size) continue;
      files.push_back({it->path(), key_of_file_name(it->path().filename().string()), bytes});
    }
  }
  return files;
}

}  // namespace isthmus
