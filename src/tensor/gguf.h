// SPDX-License-Identifier: Apache-2.0
// Reader of GGUF model files, versions 2 and 3, little endian. The file is mapped; metadata and tensors are
// views into it, checked once when opened. Immutable afterwards: any thread. Gaps between tensors are allowed
// (alignment), overlaps are not. Knows no model family: keys are read by those who know them. Not a
// converter: see gguf_writer.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "base/status.h"
#include "tensor/tensor.h"
#include "tensor/weights_digest.h"

namespace isthmus {

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// One metadata value as stored. Scalars: `count` is 1 and `element` the type. Arrays: `element` is their
// element type.
struct GgufValue {
  GgufType element = GgufType::kU8;
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> raw;  // elements only: scalars of fixed size, or (u64 length, bytes) per string
};

class GgufFile {
 public:
  // Errors: kIo/kNotFound, kCorrupt (contradicts itself), kUnsupported (version, tensor type, nested array).
  static Result<GgufFile> open(const std::filesystem::path& path);
  // Borrows `bytes`. `where` starts every message.
  static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string where);

  const TensorTable& tensors() const { return tensors_; }
  const std::vector<WeightFile>& weight_files() const {
    return weight_files_;
  }  // the one file; empty when parsed
  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }

  struct Entry {
    std::string_view key;
    GgufValue value;
  };
  const std::vector<Entry>& metadata() const { return metadata_; }  // file order
  const GgufValue* find_value(std::string_view key) const;
  bool contains(std::string_view key) const { return find_value(key) != nullptr; }

  // Missing: kNotFound. Wrong type or out of range: kCorrupt. Both name the key. Integers of any width are
  // read as any other when the value fits; f32 and f64 likewise.
  Result<uint32_t> get_u32(std::string_view key) const;
  Result<int64_t> get_i64(std::string_view key) const;
  Result<float> get_f32(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::vector<std::string_view>> get_string_array(std::string_view key) const;
  Result<std::vector<int32_t>> get_i32_array(std::string_view key) const;
  Result<std::vector<float>> get_f32_array(std::string_view key) const;

  // As above; a missing key is nullopt.
  Result<std::optional<uint32_t>> find_u32(std::string_view key) const;
  Result<std::optional<float>> find_f32(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;

 private:
  Result<const GgufValue*> require(std::string_view key) const;
  Status wrong_type(std::string_view key, std::string_view expected) const;

  std::optional<MappedFile> mapping_;  // empty when parsed from a span
  std::vector<WeightFile> weight_files_;
  std::string where_;
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  std::vector<Entry> metadata_;
  std::vector<uint32_t> by_key_;  // indices into metadata_, sorted by key
  TensorTable tensors_;

  friend class GgufParser;
};

// Bytes of one scalar; 0 for strings and arrays.
size_t gguf_scalar_bytes(GgufType type);

// The number a GGUF tensor table uses for a DType; nullopt for types GGUF lacks (f8).
std::optional<uint32_t> gguf_tensor_type(DType dtype);

}  // namespace isthmus
