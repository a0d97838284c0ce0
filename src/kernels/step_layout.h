// SPDX-License-Identifier: Apache-2.0
// How step_linear stores weights and activations; shared by its packer, scalar twin and SIMD kernels. Private
// to src/kernels. A tile is 16 output rows (lanes) over all of K. The same bytes serve every ISA rung: a
// 64-byte cell is 16 lanes x 4 bytes, so a narrower register reads halves or quarters of a cell. A tile is
// read front to back as one stream: with scales and quants in two sections, the hardware's prefetchers gave
// less than half of the bandwidth (8 against 17 GB/s a core).
//
// Quantized types: super-blocks along K, each its scale section, then the quants of its 1 or 8 blocks of 32;
// group g of a block is elements [4g, 4g+4). Codes are unsigned, value = scale * (code - offset) - minimum. A
// block's quants are
//   8-bit codes  8 cells: cell g byte [4*lane + j] = code of element 4g+j
//   4-bit codes  4 cells: cell c holds group c in low nibbles, group c+4 in high nibbles
//   5-bit codes  + 1 cell: bit g of each byte = code bit 4 of group g
//   6-bit codes  + 2 cells: bits [2h, 2h+2) of cell i = code bits 4..5 of group 4i+h
// Plain types: [K][16] f32 or f16; bf16 as [K/2][16] pairs (even k in the low half). K is padded with zeros
// to a multiple of 4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/huge_pages.h"
#include "kernels/step_linear.h"

namespace isthmus::kernels {

inline constexpr int kStepLanes = 16;
inline constexpr int kStepBlock = 32;
inline constexpr size_t kStepCell = 64;

// clang-format off
// Scale section of one super-block (1 or 8 blocks of 32), each field one value per lane:
//   kF16        d f16                                       scale = d
//   kF16Min     d f16, m f16                                scale = d, minimum = -m
//   kE8M0       e u8                                        scale = 2^(e - 128) (codes are doubled E2M1 values)
//   kSuperMin   d f16, dmin f16, 8 x sc u8, 8 x mn u8       scale = d * sc, minimum = dmin * mn
//   kSuperHalf  d f16, 16 x sc s8                           scale = d * sc for each half block of 16
// clang-format on
enum class StepScale : uint8_t { kF16, kF16Min, kE8M0, kSuperMin, kSuperHalf };

struct StepGeometry {
  int code_bits = 0;  // 4, 5, 6, 8; 0: plain type
  int offset = 0;
  StepScale scale = StepScale::kF16;
  int super_blocks = 1;    // blocks of 32 per super-block
  size_t super_bytes = 0;  // scale section of a super-block
  size_t block_bytes = 0;  // quants of one block of 32, all lanes

  constexpr size_t stride() const { return super_bytes + static_cast<size_t>(super_blocks) * block_bytes; }
};

constexpr StepGeometry step_geometry(DType t) {
  switch (t) {
    case DType::kQ4_0:
      return {4, 8, StepScale::kF16, 1, 32, 256};
    case DType::kQ4_1:
      return {4, 0, StepScale::kF16Min, 1, 64, 256};
    case DType::kQ5_0:
      return {5, 16, StepScale::kF16, 1, 32, 320};
    case DType::kQ5_1:
      return {5, 0, StepScale::kF16Min, 1, 64, 320};
    case DType::kQ8_0:
      return {8, 128, StepScale::kF16, 1, 32, 512};
    case DType::kMxfp4:
      return {4, 12, StepScale::kE8M0, 1, 16, 256};
    case DType::kQ4_K:
      return {4, 0, StepScale::kSuperMin, 8, 320, 256};
    case DType::kQ5_K:
      return {5, 0, StepScale::kSuperMin, 8, 320, 320};
    case DType::kQ6_K:
      return {6, 32, StepScale::kSuperHalf, 8, 288, 384};
    default:
      return {};
  }
}

constexpr bool step_has_minimum(StepScale s) {
  return s == StepScale::kF16Min || s == StepScale::kSuperMin;
}

// Doubled E2M1 value + 12 of each MXFP4 code.
inline constexpr uint8_t kMxfp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

// 32 activations of one row: x ~ d * q, q rounded to nearest even. A block with a non-finite value has d =
// NaN; one whose largest magnitude is below kStepSmallest (where 127 / largest could overflow) is zero.
inline constexpr float kStepSmallest = 1e-35f;
struct StepActivation {
  int8_t q[kStepBlock];
  float d;          // largest magnitude / 127
  float sum;        // d * sum of q
  int32_t init[2];  // -offset * sum of q: of each half for kSuperHalf, else of the block and 0
};

struct StepMatrix::Impl {
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0;
  int64_t padded_k = 0;   // plain types: k rounded up to 4
  int64_t tiles = 0;      // ceil(n / 16); lanes past n are zero
  size_t tile_bytes = 0;  // per tile, a multiple of 64
  HugeBuffer data;

  const std::byte* tile(int64_t t) const { return data.data() + static_cast<size_t>(t) * tile_bytes; }
  bool quantized() const { return step_geometry(dtype).code_bits != 0; }
};

// One product, as its tile kernels see it.
struct StepCall {
  const StepMatrix::Impl* w = nullptr;
  const StepActivation* quantized = nullptr;  // [rows][stride], quantized types
  const float* plain = nullptr;               // [rows][stride], plain types
  int64_t stride = 0;
  int rows = 0;
  float* out = nullptr;  // [rows, N]
  bool accumulate = false;
};

// Twins define the bits; the SIMD form gives the same ones on every rung. Any thread.
namespace scalar {
// x: [k], k a multiple of 32.
void quantize_activations(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out);
// Output tiles [begin, end).
void step_tiles(const StepCall& call, int64_t begin, int64_t end);
}  // namespace scalar

#ifdef ISTHMUS_COMPUTE_SERIAL
namespace step = scalar;
#else
namespace step {
void quantize_activations(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out);
void step_tiles(const StepCall& call, int64_t begin, int64_t end);
}  // namespace step
#endif

}  // namespace isthmus::kernels
