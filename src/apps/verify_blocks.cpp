// SPDX-License-Identifier: Apache-2.0
// isthmus verify-blocks: two block files, or the blocks of two stores, plane by plane.
#include <algorithm>
#include <map>
#include <memory>

#include "apps/command.h"
#include "apps/render.h"
#include "apps/value_diff.h"
#include "base/fs.h"
#include "store/block_directory.h"
#include "store/block_file.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

struct VerifyOptions {
  stdfs::path a, b;
  bool rows_only = false;
  bool json = false;
};

// A block file with its planes still in the mapping.
struct OpenBlock {
  MappedFile file;
  BlockHeader header;
  PlaneLayout layout;
  bool checksum_ok = true;

  std::span<const std::byte> planes() const { return file.bytes().subspan(header.header_bytes); }
};

Result<OpenBlock> open_block(const stdfs::path& path) {
  const std::string where = path.string();
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  ASSIGN_OR_RETURN(BlockHeader header, parse_block_header(file.bytes(), where));
  ASSIGN_OR_RETURN(const Json value, parse_json(header.layout_json, where + ": layout"));
  ASSIGN_OR_RETURN(PlaneLayout layout, PlaneLayout::from_json(value));
  TRY(check_block_header(header, BlockContext::of(header.identity, layout), where));
  if (file.bytes().size() != header.file_bytes()) {
    return Status(Code::kCorrupt, where + ": " + std::to_string(file.bytes().size()) + " bytes, expected " +
                                      std::to_string(header.file_bytes()));
  }
  OpenBlock block{std::move(file), std::move(header), std::move(layout)};
  block.checksum_ok = xxh3_64(block.planes()) == block.header.planes_checksum;
  return block;
}

void add_difference(Json& list, const char* field, const std::string& a, const std::string& b) {
  if (a != b) list.push_back({{"field", field}, {"a", a}, {"b", b}});
}

// All but the key, which follows from these, and the transfer that happened to bring the block.
Json metadata_differences(const OpenBlock& a, const OpenBlock& b) {
  Json list = Json::array();
  const Block &x = a.header.block, &y = b.header.block;
  add_difference(list, "identity", a.header.identity.hex(), b.header.identity.hex());
  add_difference(list, "parent", x.parent.hex(), y.parent.hex());
  add_difference(list, "source", x.source.to_string(), y.source.to_string());
  add_difference(list, "first_token", std::to_string(x.first_token), std::to_string(y.first_token));
  add_difference(list, "tokens", std::to_string(x.ids.size()), std::to_string(y.ids.size()));
  add_difference(list, "ids", ids_digest(x.ids).hex(), ids_digest(y.ids).hex());
  add_difference(list, "layout", a.header.layout_digest.hex(), b.header.layout_digest.hex());
  return list;
}

struct PlaneBytes {
  const PlaneSpec* spec = nullptr;
  int64_t rows = 0;
  std::span<const std::byte> bytes;
};

std::map<std::string, PlaneBytes> planes_of(const OpenBlock& block) {
  std::map<std::string, PlaneBytes> planes;
  std::span<const std::byte> rest = block.planes();
  const Block& b = block.header.block;
  for (const PlaneSpec& p : block.layout.planes) {
    const int64_t rows = plane_rows(p, b.first_token, b.last_token()).count;
    const size_t size = static_cast<size_t>(rows) * p.row_bytes();
    planes[p.name] = {&p, rows, rest.first(size)};
    rest = rest.subspan(size);
  }
  return planes;
}

std::string shape_of(const PlaneBytes& p) {
  return std::string(dtype_info(p.spec->dtype).name) + " [" + std::to_string(p.rows) + ", " +
         std::to_string(p.spec->row_values) + "]";
}

Json compare_plane(const std::string& name, const PlaneBytes* a, const PlaneBytes* b) {
  const std::string shape_a = a != nullptr ? shape_of(*a) : "absent";
  const std::string shape_b = b != nullptr ? shape_of(*b) : "absent";
  Json j = {{"plane", name}, {"identical", false}, {"a", shape_a}, {"b", shape_b}};
  if (shape_a != shape_b) return j;
  const ValueDiff d = diff_values(a->spec->dtype, a->bytes, b->bytes);
  j["identical"] = d.identical();
  j["values"] = d.values;
  j["bit_exact"] = d.equal_bits;
  j["max_abs"] = d.max_abs;
  j["non_finite"] = d.non_finite;
  return j;
}

Json compare_planes(const OpenBlock& a, const OpenBlock& b) {
  const auto in_a = planes_of(a), in_b = planes_of(b);
  const auto find = [](const auto& planes, const std::string& name) {
    const auto it = planes.find(name);
    return it == planes.end() ? nullptr : &it->second;
  };
  Json list = Json::array();
  for (const PlaneSpec& p : a.layout.planes)
    list.push_back(compare_plane(p.name, find(in_a, p.name), find(in_b, p.name)));
  for (const PlaneSpec& p : b.layout.planes) {
    if (!in_a.contains(p.name)) list.push_back(compare_plane(p.name, nullptr, find(in_b, p.name)));
  }
  return list;
}

Json damaged_names(const OpenBlock& a, const OpenBlock& b) {
  Json damaged = Json::array();
  if (!a.checksum_ok) damaged.push_back("a");
  if (!b.checksum_ok) damaged.push_back("b");
  return damaged;
}

Result<Json> compare_files(const VerifyOptions& o, const stdfs::path& path_a, const stdfs::path& path_b) {
  ASSIGN_OR_RETURN(const OpenBlock a, open_block(path_a));
  ASSIGN_OR_RETURN(const OpenBlock b, open_block(path_b));
  Json planes = compare_planes(a, b);
  Json metadata = metadata_differences(a, b);
  Json damaged = damaged_names(a, b);
  double max_abs = 0;
  Json different = Json::array();
  for (const Json& plane : planes) {
    max_abs = std::max(max_abs, plane.value("max_abs", 0.0));
    if (!plane["identical"].get<bool>()) different.push_back(plane);
  }
  const bool rows_identical = different.empty();
  const bool identical = rows_identical && damaged.empty() && (o.rows_only || metadata.empty());
  return Json{{"identical", identical},
              {"rows_identical", rows_identical},
              {"planes_checksum_wrong", std::move(damaged)},
              {"metadata_differences", std::move(metadata)},
              {"planes_compared", planes.size()},
              {"max_abs", max_abs},
              {"different_planes", std::move(different)},
              {"planes", std::move(planes)}};
}

// Block files by name, whatever folder of the store they are in; quarantined ones are not the store's.
std::map<std::string, stdfs::path> blocks_below(const stdfs::path& directory) {
  std::map<std::string, stdfs::path> blocks;
  std::error_code error;
  for (stdfs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name == "quarantine") it.disable_recursion_pending();
    if (key_of_file_name(name)) blocks[name] = it->path();
  }
  return blocks;
}

std::string damage_text(const Json& damaged) {
  std::string sides;
  for (const Json& side : damaged) sides += (sides.empty() ? "" : " and ") + side.get<std::string>();
  return sides.empty() ? "" : "checksum of planes wrong in " + sides;
}

Result<Json> compare_directories(const VerifyOptions& o) {
  const auto in_a = blocks_below(o.a), in_b = blocks_below(o.b);
  for (const auto& [blocks, path] : {std::pair(&in_a, &o.a), std::pair(&in_b, &o.b)}) {
    if (blocks->empty()) return Status(Code::kNotFound, path->string() + ": no block files in this folder");
  }
  int64_t common = 0, equal = 0;
  Json different = Json::array();
  for (const auto& [name, path] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) continue;
    ++common;
    const auto result = compare_files(o, path, other->second);
    if (result.ok() && (*result)["identical"].get<bool>()) {
      ++equal;
    } else if (result.ok()) {
      different.push_back({{"block", name},
                           {"different_planes", (*result)["different_planes"].size()},
                           {"max_abs", (*result)["max_abs"]},
                           {"metadata", (*result)["metadata_differences"].size()},
                           {"error", damage_text((*result)["planes_checksum_wrong"])}});
    } else {
      different.push_back({{"block", name},
                           {"different_planes", 0},
                           {"max_abs", 0},
                           {"metadata", 0},
                           {"error", result.status().message()}});
    }
  }
  const auto only_a = static_cast<int64_t>(in_a.size()) - common;
  const auto only_b = static_cast<int64_t>(in_b.size()) - common;
  return Json{{"identical", equal == common && only_a == 0 && only_b == 0},
              {"common", common},
              {"common_identical", equal},
              {"only_in_a", only_a},
              {"only_in_b", only_b},
              {"different", std::move(different)}};
}

int run_verify(const VerifyOptions& o) {
  std::error_code ignored;
  for (const stdfs::path& path : {o.a, o.b}) {
    if (!stdfs::exists(path, ignored)) return fail({Code::kNotFound, path.string() + ": no such file"});
  }
  const bool directories = stdfs::is_directory(o.a, ignored);
  if (directories != stdfs::is_directory(o.b, ignored))
    return fail(
        {Code::kInvalidArgument, "verify-blocks: expected two files or two folders, got one of each"});
  const auto result = directories ? compare_directories(o) : compare_files(o, o.a, o.b);
  if (!result.ok()) return fail(result.status());
  show(*result, o.json, {"planes"});
  return (*result)["identical"].get<bool>() ? 0 : 1;
}

}  // namespace

Command add_verify_blocks(CLI::App& parent) {
  auto o = std::make_shared<VerifyOptions>();
  CLI::App* app =
      parent.add_subcommand("verify-blocks", "compare two block files, or the blocks of two stores");
  app->footer(
      "Compares planes value by value, and metadata (all but key and transfer). Blocks of two store folders\n"
      "are matched by file name. Exit 0: identical, 1: not.");
  app->add_option("a", o->a, "a block file or store folder")->required();
  app->add_option("b", o->b, "what to compare it with")->required();
  app->add_flag("--rows-only", o->rows_only,
                "let metadata differ, e.g. to hold a bridged block against the decoder's own");
  app->add_flag("--json", o->json, "one JSON object with every plane");
  return {app, [o] { return run_verify(*o); }};
}

}  // namespace isthmus
