// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace isthmus::kernels {
namespace {

constexpr float kLargest = 448.0F;          // 1.75 * 2^8
constexpr float kSmallestNormal = 0x1p-6F;  // below it values are multiples of 2^-9

struct Block {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
};

float block_scale(const float* matrix, int64_t stride, const Block& b) {
  float largest = 0;
  for (int64_t r = b.row; r < b.row + b.rows; ++r) {
    for (int64_t c = b.column; c < b.column + b.columns; ++c) {
      const float magnitude = std::fabs(matrix[r * stride + c]);
      if (!(magnitude <= largest)) largest = magnitude;
      if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    }
  }
  return largest / kLargest;
}

void round_block(float* matrix, int64_t stride, const Block& b) {
  const float scale = block_scale(matrix, stride, b);
  if (scale == 0) return;
  for (int64_t r = b.row; r < b.row + b.rows; ++r) {
    for (int64_t c = b.column; c < b.column + b.columns; ++c) {
      float& v = matrix[r * stride + c];
      v = round_to_e4m3(v / scale) * scale;
    }
  }
}

}  // namespace

float round_to_e4m3(float v) {
  if (std::isnan(v)) return v;
  const float magnitude = std::fabs(v);
  if (magnitude >= kLargest) return std::copysign(kLargest, v);
  if (magnitude < kSmallestNormal) return std::copysign(std::nearbyint(magnitude * 0x1p9F) * 0x1p-9F, v);
  // 3 of f32's 23 fraction bits stay.
  constexpr uint32_t kDropped = 20;
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = bits + (1u << (kDropped - 1)) - 1 + (bits >> kDropped & 1u);
  return std::copysign(std::bit_cast<float>(rounded & ~((1u << kDropped) - 1)), v);
}

void round_to_fp8_blocks(float* matrix, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; r += kFp8Block) {
    for (int64_t c = 0; c < columns; c += kFp8Block) {
      round_block(matrix, columns, {r, c, std::min(kFp8Block, rows - r), std::min(kFp8Block, columns - c)});
    }
  }
}

}  // namespace isthmus::kernels
