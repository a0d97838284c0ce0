// SPDX-License-Identifier: Apache-2.0
#include "tensor/weights_digest.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"

namespace isthmus {
namespace {

constexpr size_t kMaxEntryBytes = size_t{1} << 20;

void update_u64(Sha256& sha, uint64_t v) {
  ByteWriter w;
  w.write(v);
  sha.update(w.bytes());
}

void update_text(Sha256& sha, std::string_view s) {
  update_u64(sha, s.size());
  sha.update(s);
}

// What the digest depends on, as far as the file system tells.
std::string describe(std::span<const WeightFile> files) {
  Json lines = Json::array();
  for (const WeightFile& f : files) {
    lines.push_back({resolved_path(f.path).string(), f.stamp.size, f.stamp.mtime_ns, f.stamp.inode});
  }
  return dump_canonical(lines);
}

bool unchanged(std::span<const WeightFile> files) {
  return std::all_of(files.begin(), files.end(), [](const WeightFile& f) {
    const Result<FileStamp> now = file_stamp(f.path);
    return now.ok() && *now == f.stamp;
  });
}

// Entry: {"files": …, "digest": hex, "check": sha256 of both}. `check` makes a torn or edited entry
// unreadable.
std::string check_of(const std::string& files, const std::string& digest) {
  return sha256(files + digest).hex();
}

std::optional<Digest> read_entry(const std::filesystem::path& path, const std::string& files) {
  const Result<std::string> text = read_text_file(path, kMaxEntryBytes);
  if (!text.ok()) return std::nullopt;
  const Result<Json> entry = parse_json(*text, path.string());
  if (!entry.ok() || !entry->is_object()) return std::nullopt;
  const Result<std::string> stored_files = get_string(*entry, "files", "");
  const Result<std::string> digest = get_string(*entry, "digest", "");
  const Result<std::string> check = get_string(*entry, "check", "");
  if (!stored_files.ok() || !digest.ok() || !check.ok() || *stored_files != files) return std::nullopt;
  if (*check != check_of(files, *digest)) return std::nullopt;
  return Digest::from_hex(*digest);
}

Status write_entry(const std::filesystem::path& path, const std::string& files, const Digest& digest) {
  TRY(make_directories(path.parent_path()));
  const std::string text =
      dump_json({{"files", files}, {"digest", digest.hex()}, {"check", check_of(files, digest.hex())}});
  const std::span<const std::byte> parts[] = {as_byte_span(text)};
  PosixFs fs;
  return write_file_durably(fs, path, parts);
}

}  // namespace

Digest weights_digest(const TensorTable& tensors) {
  Sha256 sha;
  sha.update("isthmus weights 1\n");
  update_u64(sha, tensors.size());
  for (const TensorView* t : tensors.in_name_order()) {
    update_text(sha, t->name);
    update_text(sha, dtype_info(t->dtype).name);
    update_u64(sha, t->shape.size());
    for (const int64_t d : t->shape) update_u64(sha, static_cast<uint64_t>(d));
    update_u64(sha, t->data.size());
    sha.update(t->data);
  }
  return sha.finish();
}

Digest cached_weights_digest(const TensorTable& tensors, std::span<const WeightFile> files,
                             const std::filesystem::path& cache_directory) {
  const std::string description = describe(files);
  // The entry's name depends on the paths alone: a changed model replaces its old entry.
  std::string paths;
  for (const WeightFile& f : files) paths += resolved_path(f.path).string() + '\n';
  const std::filesystem::path entry =
      std::filesystem::absolute(cache_directory) / (sha256(paths).hex() + ".weights.json");
  if (const std::optional<Digest> known = read_entry(entry, description)) return *known;

  const Digest digest = weights_digest(tensors);
  // Written to while it was read: this digest stands for what was read, but must not be found again under the
  // old stamp.
  if (!unchanged(files)) return digest;
  const Status written = write_entry(entry, description, digest);
  if (!written.ok()) log_warn("weights digest is not cached: {}", written.message());
  return digest;
}

}  // namespace isthmus
