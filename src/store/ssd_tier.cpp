// SPDX-License-Identifier: Apache-2.0
#include "store/ssd_tier.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <unordered_map>

#include "base/log.h"
#include "store/block_format.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;
constexpr const char* kIndexName = "index.sqlite";
constexpr const char* kLockName = "lock";

}  // namespace

SsdTier::SsdTier(const stdfs::path& directory, Fs& fs, const BlockContext& context, FileLock lock)
    : directory_(directory),
      root_(directory / context.identity.hex()),
      fs_(fs),
      context_(context),
      lock_(std::move(lock)),
      blocks_(root_, fs, context) {}

Result<std::unique_ptr<SsdTier>> SsdTier::open(const stdfs::path& directory, Fs& fs,
                                               const BlockContext& context) {
  TRY(make_directories(directory));
  ASSIGN_OR_RETURN(FileLock lock, FileLock::acquire(directory / kLockName));
  std::unique_ptr<SsdTier> tier(new SsdTier(directory, fs, context, std::move(lock)));
  TRY(tier->blocks_.open());
  TRY(tier->open_index());
  TRY(tier->reconcile());
  tier->scan_foreign();
  return tier;
}

Status SsdTier::open_index() {
  const stdfs::path path = root_ / kIndexName;
  for (const bool last_try : {false, true}) {
    auto index = Index::open(path);
    Status status = index.status();
    if (index.ok()) {
      auto rows = index->load();
      status = rows.status();
      if (rows.ok()) {
        index_ = index.take();
        indexed_ = rows.take();
        return {};
      }
    }
    if (last_try) return status;
    log_warn("store: index is rebuilt from the block files: {}", status.message());
    Index::delete_files(path);
  }
  return {};
}

Status SsdTier::reconcile() {
  std::unordered_map<BlockKey, IndexRow, DigestHash> rows;
  for (IndexRow& row : indexed_) rows.emplace(row.info.key, std::move(row));
  indexed_.clear();
  for (const BlockDirectory::File& file : blocks_.list()) {
    if (!file.key) {
      if (file.path.extension() == ".tmp") (void)fs_.remove(file.path);  // a write that a crash cut off
      continue;
    }
    const auto row = rows.find(*file.key);
    if (row != rows.end() && row->second.file_bytes == file.bytes) {
      found_.push_back(std::move(row->second));
      rows.erase(row);
      continue;
    }
    auto header = blocks_.read_header(file.path);
    Status status = header.status();
    if (header.ok() && header->block.key != *file.key) {
      status = Status(Code::kCorrupt, file.path.string() + ": holds another block");
    }
    if (!status.ok()) {
      if (blocks_.quarantine(file.path, status)) ++damaged_at_open_;
      continue;
    }
    found_.push_back({BlockInfo::of(header->block), file.bytes, 0});
    index_result(index_->put(found_.back()));
    rows.erase(*file.key);
  }
  for (const auto& [key, row] : rows) index_result(index_->remove(key));
  return {};
}

void SsdTier::scan_foreign() {
  std::error_code error;
  for (stdfs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!Digest::from_hex(name) || it->path() == root_) continue;
    Foreign f{it->path(), 0, {}};
    std::error_code inner;
    for (stdfs::recursive_directory_iterator file(f.path, inner), stop; !inner && file != stop;
         file.increment(inner)) {
      if (!key_of_file_name(file->path().filename().string())) continue;
      std::error_code no_size;
      const uint64_t bytes = file->file_size(no_size);
      if (!no_size) f.bytes += bytes;
    }
    std::error_code no_time;
    f.last_use = stdfs::last_write_time(f.path / kIndexName, no_time);
    foreign_.push_back(std::move(f));
  }
  std::sort(foreign_.begin(), foreign_.end(),
            [](const Foreign& a, const Foreign& b) { return a.last_use > b.last_use; });
}

// An index that cannot be written costs the next start a header read per block: said once, not an error.
void SsdTier::index_result(const Status& status) {
  if (!status.ok() && !index_failing_) log_warn("store: {}", status.message());
  index_failing_ = !status.ok();
}

Result<uint64_t> SsdTier::write(const Block& block, uint64_t tick) {
  ASSIGN_OR_RETURN(const uint64_t bytes, blocks_.write(block));
  index_result(index_->put({BlockInfo::of(block), bytes, tick}));
  return bytes;
}

uint64_t SsdTier::file_bytes_of(const Block& block) const {
  return file_bytes_of(block.ids.size(), block.transfer_id.size(), block.planes.size());
}

uint64_t SsdTier::file_bytes_of(size_t tokens, size_t transfer_id_bytes, size_t plane_bytes) const {
  const size_t variable = tokens * sizeof(TokenId) + transfer_id_bytes + context_.layout_json.size() +
                          block_format::kAlignment - 1;
  return block_format::kFixedBytes + variable / block_format::kAlignment * block_format::kAlignment +
         block_format::kChecksumBytes + plane_bytes;
}

void SsdTier::record(const Block& block, uint64_t tick) {
  index_result(index_->put({BlockInfo::of(block), file_bytes_of(block), tick}));
}

void SsdTier::remove(const BlockKey& key) {
  const Status status = blocks_.remove(key);
  if (!status.ok()) log_warn("store: {}", status.message());
  index_result(index_->remove(key));
}

bool SsdTier::quarantine(const BlockKey& key, const Status& why) {
  if (!blocks_.quarantine(blocks_.path_of(key), why)) return false;
  index_result(index_->remove(key));
  return true;
}

void SsdTier::touch(std::span<const std::pair<BlockKey, uint64_t>> uses) {
  if (!uses.empty()) index_result(index_->touch(uses));
}

std::optional<uint64_t> SsdTier::free_bytes() {
  auto bytes = fs_.free_bytes(root_);
  if (!bytes.ok()) return std::nullopt;
  return *bytes;
}

uint64_t SsdTier::foreign_bytes() const {
  uint64_t total = 0;
  for (const Foreign& f : foreign_) total += f.bytes;
  return total;
}

bool SsdTier::drop_oldest_foreign() {
  if (foreign_.empty()) return false;
  const Foreign f = std::move(foreign_.back());
  foreign_.pop_back();
  std::error_code error;
  stdfs::remove_all(f.path, error);
  log_info("store: removed {} MB of another identity ({}) to keep the quota", f.bytes / 1'000'000,
           f.path.filename().string().substr(0, 8));
  return true;
}

Result<uint64_t> purge_source_files(const stdfs::path& directory, const Digest& producer) {
  std::error_code error;
  if (!stdfs::is_directory(directory, error)) {
    return Status(Code::kNotFound, directory.string() + ": no such directory");
  }
  ASSIGN_OR_RETURN(const FileLock lock, FileLock::acquire(directory / kLockName));
  PosixFs fs;
  uint64_t removed = 0;
  for (stdfs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (!key_of_file_name(it->path().filename().string())) continue;
    const auto file = MappedFile::open(it->path());
    if (!file.ok()) continue;
    const auto header = parse_block_header(file->bytes(), it->path().string());
    if (!header.ok() || header->block.source.kind == SourceKind::kNative) continue;
    if (header->block.source.producer != producer) continue;
    TRY(fs.remove(it->path()));
    ++removed;
  }
  if (error) return Status(Code::kIo, directory.string() + ": " + error.message());
  return removed;  // their index rows go when a store opens the directory next
}

}  // namespace isthmus
