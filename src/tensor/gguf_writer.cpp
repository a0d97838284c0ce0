// SPDX-License-Identifier: Apache-2.0
#include "tensor/gguf_writer.h"

#include <algorithm>
#include <array>

namespace isthmus {
namespace {

// Tensor data begin on multiples of this. A copied general.alignment is replaced, so that reader and writer
// agree.
constexpr uint32_t kAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::array<std::byte, kAlignment> kZeros{};

size_t padding_after(size_t bytes) {
  return (kAlignment - bytes % kAlignment) % kAlignment;
}

void write_string(ByteWriter& w, std::string_view s) {
  w.write<uint64_t>(s.size());
  w.append(s);
}

Status check_tensor(const TensorView& t) {
  const std::string tensor = "gguf: tensor " + quote_name(t.name);
  if (!gguf_tensor_type(t.dtype)) {
    return {Code::kUnsupported,
            tensor + " has type " + std::string(dtype_info(t.dtype).name) + ", which the format lacks"};
  }
  const Result<size_t> expected = tensor_bytes(t.dtype, t.shape);
  if (!expected.ok() || *expected != t.data.size() || *expected == 0) {
    return {Code::kInvalidArgument, tensor + " of shape " + shape_text(t.shape) + " does not have " +
                                        std::to_string(t.data.size()) + " bytes, or is empty"};
  }
  if (t.shape.empty() || t.shape.size() > 4 || t.name.empty()) {
    return {Code::kInvalidArgument,
            tensor + ": the format needs a name and 1 to 4 dimensions, got " + shape_text(t.shape)};
  }
  return {};
}

}  // namespace

void GgufWriter::set(std::string_view key, GgufType type, Bytes payload) {
  ByteWriter w;
  w.write(static_cast<uint32_t>(type));
  w.append(payload);
  const auto [at, added] = by_key_.emplace(std::string(key), metadata_.size());
  if (added) metadata_.push_back({std::string(key), {}});
  metadata_[at->second].encoded = w.take();
}

void GgufWriter::copy_metadata(const GgufFile& source) {
  for (const GgufFile::Entry& entry : source.metadata()) {
    if (entry.key == kAlignmentKey) continue;
    const GgufValue& value = entry.value;
    ByteWriter w;
    if (value.is_array) {
      w.write(static_cast<uint32_t>(value.element));
      w.write<uint64_t>(value.count);
    }
    w.append(value.raw);
    set(entry.key, value.is_array ? GgufType::kArray : value.element, w.take());
  }
}

void GgufWriter::set_u32(std::string_view key, uint32_t value) {
  ByteWriter w;
  w.write(value);
  set(key, GgufType::kU32, w.take());
}
void GgufWriter::set_f32(std::string_view key, float value) {
  ByteWriter w;
  w.write(value);
  set(key, GgufType::kF32, w.take());
}
void GgufWriter::set_bool(std::string_view key, bool value) {
  ByteWriter w;
  w.write(static_cast<uint8_t>(value));
  set(key, GgufType::kBool, w.take());
}
void GgufWriter::set_string(std::string_view key, std::string_view value) {
  ByteWriter w;
  write_string(w, value);
  set(key, GgufType::kString, w.take());
}
void GgufWriter::set_string_array(std::string_view key, std::span<const std::string> values) {
  ByteWriter w;
  w.write(static_cast<uint32_t>(GgufType::kString));
  w.write<uint64_t>(values.size());
  for (const std::string& v : values) write_string(w, v);
  set(key, GgufType::kArray, w.take());
}

Status GgufWriter::check_names() const {
  std::vector<std::string_view> names;
  for (const TensorView& t : tensors_) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  const auto twin = std::adjacent_find(names.begin(), names.end());
  if (twin == names.end()) return {};
  return {Code::kInvalidArgument, "gguf: two tensors are named " + quote_name(*twin)};
}

Result<Bytes> GgufWriter::header() const {
  TRY(check_names());
  ByteWriter w;
  w.append("GGUF");
  w.write<uint32_t>(3);
  w.write<uint64_t>(tensors_.size());
  w.write<uint64_t>(metadata_.size());
  for (const Entry& entry : metadata_) {
    write_string(w, entry.key);
    w.append(entry.encoded);
  }
  uint64_t offset = 0;
  for (const TensorView& t : tensors_) {
    TRY(check_tensor(t));
    write_string(w, t.name);
    w.write(static_cast<uint32_t>(t.shape.size()));
    for (auto d = t.shape.rbegin(); d != t.shape.rend(); ++d) w.write<uint64_t>(static_cast<uint64_t>(*d));
    w.write<uint32_t>(*gguf_tensor_type(t.dtype));
    w.write<uint64_t>(offset);
    offset += t.data.size() + padding_after(t.data.size());
  }
  w.pad_to(kAlignment);
  return w.take();
}

Result<Bytes> GgufWriter::to_bytes() const {
  ASSIGN_OR_RETURN(Bytes bytes, header());
  for (const TensorView& t : tensors_) {
    bytes.insert(bytes.end(), t.data.begin(), t.data.end());
    bytes.resize(bytes.size() + padding_after(t.data.size()));
  }
  return bytes;
}

Status GgufWriter::write_file(Fs& fs, const std::filesystem::path& path) const {
  ASSIGN_OR_RETURN(const Bytes head, header());
  std::vector<std::span<const std::byte>> parts = {head};
  for (const TensorView& t : tensors_) {
    parts.push_back(t.data);
    parts.push_back(std::span(kZeros).first(padding_after(t.data.size())));
  }
  return write_file_durably(fs, std::filesystem::absolute(path), parts);
}

}  // namespace isthmus
