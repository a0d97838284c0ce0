// SPDX-License-Identifier: Apache-2.0
// Typed access to metadata. The parser is gguf_parser.cpp.
#include "tensor/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace isthmus {
namespace {

template <typename T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Any integer element as (negative, magnitude as int64); nullopt for other types and for u64 beyond int64.
std::optional<int64_t> integer_at(const GgufValue& v, uint64_t i) {
  const std::byte* p = v.raw.data() + i * gguf_scalar_bytes(v.element);
  switch (v.element) {
    case GgufType::kU8:
      return load<uint8_t>(p);
    case GgufType::kI8:
      return load<int8_t>(p);
    case GgufType::kU16:
      return load<uint16_t>(p);
    case GgufType::kI16:
      return load<int16_t>(p);
    case GgufType::kU32:
      return load<uint32_t>(p);
    case GgufType::kI32:
      return load<int32_t>(p);
    case GgufType::kI64:
      return load<int64_t>(p);
    case GgufType::kU64: {
      const auto u = load<uint64_t>(p);
      if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(u);
    }
    default:
      return std::nullopt;
  }
}

std::optional<float> float_at(const GgufValue& v, uint64_t i) {
  if (v.element == GgufType::kF32) return load<float>(v.raw.data() + i * sizeof(float));
  if (v.element == GgufType::kF64) {
    const auto d = load<double>(v.raw.data() + i * sizeof(double));
    // Converting a finite double beyond float's range is undefined.
    if (d > std::numeric_limits<float>::max() || d < std::numeric_limits<float>::lowest())
      return std::nullopt;
    return static_cast<float>(d);
  }
  return std::nullopt;
}

// A string at the front of `raw`, which is cut behind it. Lengths were checked by the parser.
std::string_view take_string(std::span<const std::byte>& raw) {
  const auto length = static_cast<size_t>(load<uint64_t>(raw.data()));
  const std::string_view text(reinterpret_cast<const char*>(raw.data() + 8), length);
  raw = raw.subspan(8 + length);
  return text;
}

}  // namespace

size_t gguf_scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  return 0;
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto at = std::lower_bound(by_key_.begin(), by_key_.end(), key,
                                   [this](uint32_t i, std::string_view k) { return metadata_[i].key < k; });
  return at != by_key_.end() && metadata_[*at].key == key ? &metadata_[*at].value : nullptr;
}

Result<const GgufValue*> GgufFile::require(std::string_view key) const {
  const GgufValue* value = find_value(key);
  if (value == nullptr) return Status(Code::kNotFound, where_ + ": no metadata key " + quote_name(key));
  return value;
}

Status GgufFile::wrong_type(std::string_view key, std::string_view expected) const {
  static constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                "bool", "string", "array", "u64", "i64", "f64"};
  const GgufValue& value = *find_value(key);
  std::string got(kNames[static_cast<size_t>(value.element)]);
  if (value.is_array) got = "array of " + std::to_string(value.count) + " " + got;
  return {Code::kCorrupt, where_ + ": metadata key " + quote_name(key) + ": expected " +
                              std::string(expected) + ", got " + got};
}

Result<int64_t> GgufFile::get_i64(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  const std::optional<int64_t> v = value->is_array ? std::nullopt : integer_at(*value, 0);
  if (!v) return wrong_type(key, "an integer within 64 bits");
  return *v;
}

Result<uint32_t> GgufFile::get_u32(std::string_view key) const {
  ASSIGN_OR_RETURN(const int64_t v, get_i64(key));
  if (v < 0 || v > std::numeric_limits<uint32_t>::max()) return wrong_type(key, "an integer within u32");
  return static_cast<uint32_t>(v);
}

Result<float> GgufFile::get_f32(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  const std::optional<float> v = value->is_array ? std::nullopt : float_at(*value, 0);
  if (!v) return wrong_type(key, "a number within f32");
  return *v;
}

Result<bool> GgufFile::get_bool(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (value->is_array || value->element != GgufType::kBool) return wrong_type(key, "bool");
  return value->raw[0] != std::byte{0};
}

Result<std::string_view> GgufFile::get_string(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (value->is_array || value->element != GgufType::kString) return wrong_type(key, "string");
  std::span<const std::byte> raw = value->raw;
  return take_string(raw);
}

Result<std::vector<std::string_view>> GgufFile::get_string_array(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (!value->is_array || value->element != GgufType::kString) return wrong_type(key, "array of strings");
  std::vector<std::string_view> out;
  out.reserve(static_cast<size_t>(value->count));
  std::span<const std::byte> raw = value->raw;
  for (uint64_t i = 0; i < value->count; ++i) out.push_back(take_string(raw));
  return out;
}

Result<std::vector<int32_t>> GgufFile::get_i32_array(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (!value->is_array) return wrong_type(key, "array of integers");
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(value->count));
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<int64_t> v = integer_at(*value, i);
    if (!v || !std::in_range<int32_t>(*v)) return wrong_type(key, "array of integers within i32");
    out.push_back(static_cast<int32_t>(*v));
  }
  return out;
}

Result<std::vector<float>> GgufFile::get_f32_array(std::string_view key) const {
  ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (!value->is_array) return wrong_type(key, "array of numbers");
  std::vector<float> out;
  out.reserve(static_cast<size_t>(value->count));
  for (uint64_t i = 0; i < value->count; ++i) {
    const std::optional<float> v = float_at(*value, i);
    if (!v) return wrong_type(key, "array of numbers within f32");
    out.push_back(*v);
  }
  return out;
}

Result<std::optional<uint32_t>> GgufFile::find_u32(std::string_view key) const {
  if (!contains(key)) return std::optional<uint32_t>();
  ASSIGN_OR_RETURN(const uint32_t v, get_u32(key));
  return std::optional(v);
}

Result<std::optional<float>> GgufFile::find_f32(std::string_view key) const {
  if (!contains(key)) return std::optional<float>();
  ASSIGN_OR_RETURN(const float v, get_f32(key));
  return std::optional(v);
}

Result<std::optional<bool>> GgufFile::find_bool(std::string_view key) const {
  if (!contains(key)) return std::optional<bool>();
  ASSIGN_OR_RETURN(const bool v, get_bool(key));
  return std::optional(v);
}

Result<std::optional<std::string_view>> GgufFile::find_string(std::string_view key) const {
  if (!contains(key)) return std::optional<std::string_view>();
  ASSIGN_OR_RETURN(const std::string_view v, get_string(key));
  return std::optional(v);
}

}  // namespace isthmus
