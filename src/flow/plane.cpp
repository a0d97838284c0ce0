// SPDX-License-Identifier: Apache-2.0
#include "flow/plane.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace isthmus {
namespace {

constexpr std::array kKinds = {PlaneKind::kTokenRows, PlaneKind::kPooled, PlaneKind::kWindow,
                               PlaneKind::kPrevious, PlaneKind::kRemainder};
// Rows on the wire are plain values: quantized rows would have to be cut at block edges.
constexpr std::array kRowTypes = {DType::kF32, DType::kF16, DType::kBF16,
                                  DType::kI8,  DType::kU8,  DType::kF8E4M3};
constexpr size_t kMaxPlanes = 4096;
constexpr size_t kMaxRowBytes = 1 << 20;
constexpr int64_t kMaxRatio = 1 << 20;

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::optional<PlaneKind> kind_of(std::string_view name) {
  for (const PlaneKind k : kKinds) {
    if (name == plane_kind_name(k)) return k;
  }
  return std::nullopt;
}

std::optional<DType> row_type_of(std::string_view name) {
  for (const DType t : kRowTypes) {
    if (name == dtype_info(t).name) return t;
  }
  return std::nullopt;
}

Status check_sizes(const PlaneSpec& p, int64_t layer, const std::string& where) {
  if (layer < 0 || layer > 100000) return {Code::kInvalidArgument, where + ": layer out of range"};
  if (p.ratio < 1 || p.ratio > kMaxRatio || (p.kind == PlaneKind::kTokenRows && p.ratio != 1)) {
    return {Code::kInvalidArgument, where + ": ratio " + std::to_string(p.ratio) + " out of range"};
  }
  if (p.row_values < 1 || p.row_values > static_cast<int64_t>(kMaxRowBytes) || p.row_bytes() > kMaxRowBytes) {
    return {Code::kInvalidArgument, where + ": row_values " + std::to_string(p.row_values) + " out of range"};
  }
  return {};
}

Result<PlaneSpec> plane_from_json(const Json& j) {
  PlaneSpec p;
  ASSIGN_OR_RETURN(p.name, get_string(j, "name", "plane"));
  if (!good_name(p.name)) return Status(Code::kInvalidArgument, "plane: name is not [A-Za-z0-9._-]{1,64}");
  const std::string where = "plane '" + p.name + "'";
  ASSIGN_OR_RETURN(const std::string kind, get_string(j, "kind", where));
  ASSIGN_OR_RETURN(const std::string dtype, get_string(j, "dtype", where));
  ASSIGN_OR_RETURN(const int64_t layer, get_int(j, "layer", where));
  ASSIGN_OR_RETURN(p.ratio, get_int(j, "ratio", where));
  ASSIGN_OR_RETURN(p.row_values, get_int(j, "row_values", where));
  const auto k = kind_of(kind);
  if (!k) return Status(Code::kUnsupported, where + ": unknown kind '" + kind.substr(0, 32) + "'");
  const auto t = row_type_of(dtype);
  if (!t) return Status(Code::kUnsupported, where + ": unknown row dtype '" + dtype.substr(0, 32) + "'");
  p.kind = *k;
  p.dtype = *t;
  TRY(check_sizes(p, layer, where));
  p.layer = static_cast<int>(layer);
  return p;
}

}  // namespace

std::string_view plane_kind_name(PlaneKind kind) {
  switch (kind) {
    case PlaneKind::kTokenRows:
      return "token_rows";
    case PlaneKind::kPooled:
      return "pooled";
    case PlaneKind::kWindow:
      return "window";
    case PlaneKind::kPrevious:
      return "previous";
    case PlaneKind::kRemainder:
      return "remainder";
  }
  return "unknown";
}

PlaneRows plane_rows(const PlaneSpec& spec, int64_t a, int64_t b) {
  const int64_t r = spec.ratio;
  const int64_t finished = b / r * r;  // tokens in finished windows
  switch (spec.kind) {
    case PlaneKind::kTokenRows:
      return {a, b - a};
    case PlaneKind::kPooled:
      return {a / r, b / r - a / r};
    case PlaneKind::kWindow:
      return {std::max<int64_t>(0, b - r), std::min(b, r)};
    case PlaneKind::kPrevious:
      return {std::max<int64_t>(0, finished - r), std::min(finished, r)};
    case PlaneKind::kRemainder:
      return {finished, b - finished};
  }
  return {};
}

bool PlaneLayout::sliceable() const {
  return std::all_of(planes.begin(), planes.end(),
                     [](const PlaneSpec& p) { return p.kind == PlaneKind::kTokenRows; });
}

size_t PlaneLayout::block_bytes(int64_t a, int64_t b) const {
  size_t total = 0;
  for (const PlaneSpec& p : planes) total += static_cast<size_t>(plane_rows(p, a, b).count) * p.row_bytes();
  return total;
}

Json PlaneLayout::to_json() const {
  Json list = Json::array();
  for (const PlaneSpec& p : planes) {
    list.push_back({{"name", p.name},
                    {"layer", p.layer},
                    {"kind", plane_kind_name(p.kind)},
                    {"ratio", p.ratio},
                    {"dtype", dtype_info(p.dtype).name},
                    {"row_values", p.row_values}});
  }
  return {{"block_tokens", block_tokens}, {"planes", std::move(list)}};
}

Result<PlaneLayout> PlaneLayout::from_json(const Json& j) {
  PlaneLayout layout;
  ASSIGN_OR_RETURN(const int64_t block_tokens, get_int(j, "block_tokens", "plane layout"));
  if (block_tokens < 1 || block_tokens > (1 << 20)) {
    return Status(Code::kInvalidArgument,
                  "plane layout: block_tokens " + std::to_string(block_tokens) + " out of range");
  }
  layout.block_tokens = static_cast<int>(block_tokens);
  const auto it = j.find("planes");
  if (it == j.end() || !it->is_array() || it->empty() || it->size() > kMaxPlanes) {
    return Status(Code::kInvalidArgument, "plane layout: field 'planes' is not a list of 1 to 4096 planes");
  }
  std::set<std::string> names;
  for (const Json& item : *it) {
    ASSIGN_OR_RETURN(PlaneSpec p, plane_from_json(item));
    if (!names.insert(p.name).second)
      return Status(Code::kInvalidArgument, "plane '" + p.name + "' appears twice");
    layout.planes.push_back(std::move(p));
  }
  return layout;
}

PlaneLayout native_layout(int layers, int64_t row_values, int block_tokens, DType cache_dtype) {
  PlaneLayout layout;
  layout.block_tokens = block_tokens;
  for (int i = 0; i < layers; ++i) {
    for (const char* part : {"k", "v"}) {
      PlaneSpec p;
      p.name = "L" + std::to_string(i) + "." + part;
      p.layer = i;
      p.dtype = cache_dtype;
      p.row_values = row_values;
      layout.planes.push_back(std::move(p));
    }
  }
  return layout;
}

}  // namespace isthmus
