// SPDX-License-Identifier: Apache-2.0
#include "tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "tensor/safetensors_header.h"

namespace isthmus {
namespace {

constexpr size_t kAlignment = 8;

constexpr std::array<std::pair<DType, std::string_view>, 9> kDtypes = {{
    {DType::kF32, "F32"},
    {DType::kF16, "F16"},
    {DType::kBF16, "BF16"},
    {DType::kI8, "I8"},
    {DType::kU8, "U8"},
    {DType::kI32, "I32"},
    {DType::kI64, "I64"},
    {DType::kF8E4M3, "F8_E4M3"},
    {DType::kF8E8M0, "F8_E8M0"},
}};

Status corrupt(std::string_view where, const std::string& what) {
  return {Code::kCorrupt, std::string(where) + ": " + what};
}

std::string range_text(uint64_t begin, uint64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

// Bounds, and bytes against shape.
Status check_tensor(const SafetensorsHeader::Tensor& t, uint64_t data_bytes, std::string_view where) {
  if (t.begin > t.end || t.end > data_bytes) {
    return corrupt(where, "tensor " + quote_name(t.name) + " has bytes " + range_text(t.begin, t.end) +
                              " of " + std::to_string(data_bytes));
  }
  const Result<size_t> expected = tensor_bytes(t.dtype, t.shape);
  if (!expected.ok())
    return corrupt(where, "tensor " + quote_name(t.name) + ": " + expected.status().message());
  if (*expected != t.end - t.begin) {
    return corrupt(where, "tensor " + quote_name(t.name) + " of shape " + shape_text(t.shape) + " " +
                              std::string(safetensors_dtype_name(t.dtype)) + " needs " +
                              std::to_string(*expected) + " bytes, has " + std::to_string(t.end - t.begin));
  }
  return {};
}

// Sorted by place, each tensor begins where the one before ends, and the last one ends with the file.
Status check_cover(const SafetensorsHeader& header, uint64_t data_bytes, std::string_view where) {
  std::vector<const SafetensorsHeader::Tensor*> order;
  order.reserve(header.tensors.size());
  for (const auto& t : header.tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t covered = 0;
  for (const auto* t : order) {
    if (t->begin != covered) {
      return corrupt(where, "tensor " + quote_name(t->name) + " begins at " + std::to_string(t->begin) +
                                ", expected " + std::to_string(covered) +
                                (t->begin < covered ? " (overlap)" : " (gap)"));
    }
    covered = t->end;
  }
  if (covered == data_bytes) return {};
  return corrupt(where,
                 "tensors cover " + std::to_string(covered) + " bytes of " + std::to_string(data_bytes));
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
  for (const auto& [known, name] : kDtypes) {
    if (known == dtype) return name;
  }
  return {};
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const auto& [dtype, known] : kDtypes) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

Result<Safetensors> Safetensors::parse(std::span<const std::byte> bytes, std::string_view where,
                                       const SafetensorsLimits& limits) {
  ByteReader reader(bytes);
  const auto header_bytes = reader.read<uint64_t>();
  if (!reader.ok()) return corrupt(where, "no header length in " + std::to_string(bytes.size()) + " bytes");
  if (header_bytes > reader.remaining()) {
    return corrupt(where, "header of " + std::to_string(header_bytes) + " bytes in a file of " +
                              std::to_string(bytes.size()));
  }
  if (header_bytes > limits.max_header_bytes) {
    return Status(Code::kResourceExhausted, std::string(where) + ": header of " +
                                                std::to_string(header_bytes) + " bytes, limit " +
                                                std::to_string(limits.max_header_bytes));
  }
  const std::string_view json = as_text(reader.take(static_cast<size_t>(header_bytes)));
  if (json.empty() || json.front() != '{') return corrupt(where, "header does not begin with '{'");
  ASSIGN_OR_RETURN(SafetensorsHeader header, parse_safetensors_header(json, where));

  const std::span<const std::byte> data = bytes.subspan(reader.position());
  std::vector<TensorView> views;
  views.reserve(header.tensors.size());
  for (const auto& t : header.tensors) TRY(check_tensor(t, data.size(), where));
  TRY(check_cover(header, data.size(), where));
  for (auto& t : header.tensors) {
    views.push_back({std::move(t.name), t.dtype, std::move(t.shape),
                     data.subspan(static_cast<size_t>(t.begin), static_cast<size_t>(t.end - t.begin))});
  }
  Safetensors file;
  ASSIGN_OR_RETURN(file.tensors_, TensorTable::build(std::move(views), where));
  file.metadata_ = std::move(header.metadata);
  return file;
}

Result<Safetensors> Safetensors::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  ASSIGN_OR_RETURN(Safetensors file, parse(mapping.bytes(), path.string()));
  file.mapping_ = std::move(mapping);
  return file;
}

std::optional<FileStamp> Safetensors::stamp() const {
  return mapping_ ? std::optional(mapping_->stamp()) : std::nullopt;
}

namespace {

Status check_writable(std::span<const TensorView> tensors) {
  std::vector<std::string_view> names;
  for (const TensorView& t : tensors) {
    if (safetensors_dtype_name(t.dtype).empty()) {
      return {Code::kUnsupported, "safetensors: tensor " + quote_name(t.name) + " has type " +
                                      std::string(dtype_info(t.dtype).name) + ", which the format lacks"};
    }
    const Result<size_t> expected = tensor_bytes(t.dtype, t.shape);
    if (!expected.ok() || *expected != t.data.size()) {
      return {Code::kInvalidArgument, "safetensors: tensor " + quote_name(t.name) + " of shape " +
                                          shape_text(t.shape) + " does not have " +
                                          std::to_string(t.data.size()) + " bytes"};
    }
    if (t.name == "__metadata__")
      return {Code::kInvalidArgument, "safetensors: no tensor can be named __metadata__"};
    names.push_back(t.name);
  }
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return {};
  return {Code::kInvalidArgument, "safetensors: two tensors are named " + quote_name(*twin)};
}

std::string header_text(const std::vector<const TensorView*>& order, const SafetensorsMetadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + dump_json(Json(metadata)) + (order.empty() ? "" : ",");
  uint64_t offset = 0;
  for (const TensorView* t : order) {
    const uint64_t end = offset + t->data.size();
    text += (t == order.front() ? "" : ",") + dump_json(Json(t->name)) + ":{\"dtype\":\"" +
            std::string(safetensors_dtype_name(t->dtype)) + "\",\"shape\":" + dump_json(Json(t->shape)) +
            ",\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  return text + "}";
}

}  // namespace

Result<SafetensorsPlan> plan_safetensors(std::span<const TensorView> tensors,
                                         const SafetensorsMetadata& metadata) {
  TRY(check_writable(tensors));
  SafetensorsPlan plan;
  for (const TensorView& t : tensors) plan.order.push_back(&t);
  const auto rank = [](const TensorView* t) { return dtype_info(t->dtype).block_bytes; };
  std::sort(plan.order.begin(), plan.order.end(), [rank](const TensorView* a, const TensorView* b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a->name < b->name;
  });

  std::string text = header_text(plan.order, metadata);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  ByteWriter writer;
  writer.write<uint64_t>(text.size());
  writer.append(text);
  plan.head = writer.take();
  return plan;
}

Result<Bytes> write_safetensors(std::span<const TensorView> tensors, const SafetensorsMetadata& metadata) {
  ASSIGN_OR_RETURN(SafetensorsPlan plan, plan_safetensors(tensors, metadata));
  size_t total = plan.head.size();
  for (const TensorView* t : plan.order) total += t->data.size();
  Bytes bytes = std::move(plan.head);
  bytes.reserve(total);
  for (const TensorView* t : plan.order) bytes.insert(bytes.end(), t->data.begin(), t->data.end());
  return bytes;
}

Status write_safetensors_file(Fs& fs, const std::filesystem::path& path, std::span<const TensorView> tensors,
                              const SafetensorsMetadata& metadata) {
  ASSIGN_OR_RETURN(const SafetensorsPlan plan, plan_safetensors(tensors, metadata));
  std::vector<std::span<const std::byte>> parts = {plan.head};
  for (const TensorView* t : plan.order) parts.push_back(t->data);
  return write_file_durably(fs, std::filesystem::absolute(path), parts);
}

}  // namespace isthmus
