// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "apps/inspect.h"
#include "base/fs.h"
#include "store/block_directory.h"
#include "store/block_file.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

// Neighbours of one shape in one line: a native layout has two planes a layer, all alike.
Json plane_groups(const PlaneLayout& layout, int64_t first, int64_t last) {
  Json groups = Json::array();
  const PlaneSpec* previous = nullptr;
  for (const PlaneSpec& p : layout.planes) {
    const bool same = previous != nullptr && previous->kind == p.kind && previous->ratio == p.ratio &&
                      previous->dtype == p.dtype && previous->row_values == p.row_values;
    previous = &p;
    if (same) {
      Json& group = groups.back();
      group["planes"] = group["planes"].get<int64_t>() + 1;
      group["last"] = p.name;
      continue;
    }
    const PlaneRows rows = plane_rows(p, first, last);
    groups.push_back({{"first", p.name},
                      {"last", p.name},
                      {"planes", 1},
                      {"kind", plane_kind_name(p.kind)},
                      {"ratio", p.ratio},
                      {"dtype", dtype_info(p.dtype).name},
                      {"row_values", p.row_values},
                      {"first_row", rows.first},
                      {"rows", rows.count}});
  }
  return groups;
}

Json source_json(const Source& source) {
  Json j = {{"kind", source_kind_name(source.kind)}};
  if (source.kind != SourceKind::kNative) j["producer"] = source.producer.hex();
  return j;
}

Json header_json(const BlockHeader& h) {
  const Block& b = h.block;
  const bool first = b.parent == root_key(h.identity);
  Json j = {{"identity", h.identity.hex()},
            {"key", b.key.hex()},
            {"parent", b.parent.hex() + (first ? " (root: the first block of a prompt)" : "")},
            {"tokens", {{"first", b.first_token}, {"count", b.ids.size()}}},
            {"source", source_json(b.source)},
            {"transfer", b.transfer_id.empty() ? Json() : Json(b.transfer_id)},
            {"header_bytes", h.header_bytes},
            {"planes_bytes", h.planes_bytes}};
  j["ids"] = b.ids;
  return j;
}

// What is behind the header: file length, planes' checksum, and whether the layout makes these sizes.
Status check_planes(std::span<const std::byte> file, const BlockHeader& h, const PlaneLayout& layout) {
  const BlockContext context = BlockContext::of(h.identity, layout);
  return parse_block(file, context, "block").status();
}

struct SourceCount {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t tokens = 0;
};

struct IdentityCount {
  std::map<Source, SourceCount> sources;
  uint64_t damaged = 0;
  uint64_t other_files = 0;
};

void count_file(const stdfs::path& path, IdentityCount& count) {
  if (!key_of_file_name(path.filename().string())) {
    ++count.other_files;
    return;
  }
  const auto file = MappedFile::open(path);
  const auto header =
      file.ok() ? parse_block_header(file->bytes(), "block") : Result<BlockHeader>(file.status());
  if (!header.ok() || header->file_bytes() != file->bytes().size()) {
    ++count.damaged;
    return;
  }
  SourceCount& source = count.sources[header->block.source];
  ++source.blocks;
  source.bytes += file->bytes().size();
  source.tokens += header->block.ids.size();
}

uint64_t files_in(const stdfs::path& folder) {
  std::error_code error;
  uint64_t n = 0;
  for (stdfs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) ++n;
  return n;
}

Json identity_json(const stdfs::path& root) {
  IdentityCount count;
  std::error_code error;
  for (stdfs::directory_iterator folder(root, error), end; !error && folder != end; folder.increment(error)) {
    if (folder->path().filename().string().size() != 2) continue;  // index, quarantine
    std::error_code inner;
    for (stdfs::directory_iterator it(folder->path(), inner); !inner && it != end; it.increment(inner)) {
      count_file(it->path(), count);
    }
  }
  Json sources = Json::array();
  for (const auto& [source, c] : count.sources) {
    sources.push_back(
        {{"source", source_kind_name(source.kind)},
         {"producer", source.kind == SourceKind::kNative ? std::string("-") : source.producer.hex()},
         {"blocks", c.blocks},
         {"tokens", c.tokens},
         {"bytes", c.bytes}});
  }
  return {{"sources", std::move(sources)},
          {"damaged", count.damaged},
          {"quarantined", files_in(root / "quarantine")},
          {"temporary_files", count.other_files}};
}

// Folders of a store are named by identities.
std::vector<stdfs::path> identity_folders(const stdfs::path& directory) {
  std::vector<stdfs::path> found;
  std::error_code error;
  for (stdfs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const bool named = Digest::from_hex(it->path().filename().string()).has_value();
    if (named && it->is_directory(ignored)) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool is_store_directory(const stdfs::path& directory) {
  std::error_code ignored;
  return !identity_folders(directory).empty() || stdfs::exists(directory / "lock", ignored);
}

Result<Json> describe_block(const stdfs::path& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  Json j = {{"what", "block file"}, {"file_bytes", file.bytes().size()}};
  const auto header = parse_block_header(file.bytes(), "header");
  if (!header.ok()) {
    j["damaged"] = header.status().message();
    return j;
  }
  j.update(header_json(*header));
  const auto layout_value = parse_json(header->layout_json, "layout");
  const auto layout =
      layout_value.ok() ? PlaneLayout::from_json(*layout_value) : Result<PlaneLayout>(layout_value.status());
  if (!layout.ok()) {
    j["damaged"] = layout.status().message();
    return j;
  }
  j["block_tokens"] = layout->block_tokens;
  j["planes"] = plane_groups(*layout, header->block.first_token, header->block.last_token());
  const Status planes = check_planes(file.bytes(), *header, *layout);
  if (planes.ok()) {
    j["checksums"] = "ok: header, key, layout and planes";
  } else {
    j["damaged"] = planes.message();
  }
  return j;
}

Result<Json> describe_store(const stdfs::path& directory) {
  Json identities = Json::object();
  for (const stdfs::path& root : identity_folders(directory)) {
    identities[root.filename().string()] = identity_json(root);
  }
  uint64_t blocks = 0, bytes = 0;
  for (const Json& identity : identities) {
    for (const Json& source : identity["sources"]) {
      blocks += source["blocks"].get<uint64_t>();
      bytes += source["bytes"].get<uint64_t>();
    }
  }
  return Json{{"what", "block store"},
              {"blocks", blocks},
              {"total_bytes", bytes},
              {"identities", std::move(identities)}};
}

}  // namespace isthmus
