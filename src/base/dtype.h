// SPDX-License-Identifier: Apache-2.0
// Element types of tensors in files, caches and on the wire, with their storage geometry. Values; any thread.
// The block types are those of GGUF; their byte layouts are in kernels/block_format.h. Not a list of what
// each kernel can compute: those refuse what they lack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isthmus {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI32,
  kI64,
  kF8E4M3,
  kF8E8M0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kMxfp4,
};

struct DTypeInfo {
  std::string_view name;   // "bf16", "q4_1", ...
  int64_t block_elements;  // values per storage block (1 for plain types)
  size_t block_bytes;      // bytes per storage block
};

const DTypeInfo& dtype_info(DType t);

// Bytes of a row of `n` values. `n` must be a multiple of block_elements (callers check file data first).
inline size_t row_bytes(DType t, int64_t n) {
  const DTypeInfo& info = dtype_info(t);
  return static_cast<size_t>(n / info.block_elements) * info.block_bytes;
}

}  // namespace isthmus
