// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/parallel.h"
#include "kernels/store_sums.h"

namespace isthmus::kernels {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000u;
constexpr int64_t kValuesPerThread = 1 << 16;

// Of the largest magnitude's bits: NaN when it is not finite, 0 when it is next to nothing.
float scale_of(uint32_t largest_bits) {
  if (largest_bits >= kInfinityBits) return std::numeric_limits<float>::quiet_NaN();
  const float largest = std::bit_cast<float>(largest_bits);
  return largest < kInt8Smallest ? 0.0f : largest / 127.0f;
}

float inverse_of(uint32_t largest_bits) {
  if (largest_bits >= kInfinityBits) return 0.0f;
  const float largest = std::bit_cast<float>(largest_bits);
  return largest < kInt8Smallest ? 0.0f : 127.0f / largest;
}

int quantized(float x, float inverse) {
  return inverse == 0.0f ? 0 : static_cast<int>(std::nearbyint(x * inverse));
}

uint32_t magnitude_bits(float x) {
  return std::bit_cast<uint32_t>(x) & 0x7fffffffu;
}

}  // namespace

void pack_int8(const float* weights, int64_t n, int64_t k, std::byte* panels) {
  const Int8Weights w{panels, n, k};
  parallel_rows(w.panel_count(), k * kInt8Columns, kValuesPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      std::byte* const panel = panels + static_cast<size_t>(p) * w.panel_bytes();
      std::memset(panel, 128, static_cast<size_t>(w.groups()) * kInt8Columns * 4);
      for (int64_t c = 0; c < std::min<int64_t>(kInt8Columns, n - p * kInt8Columns); ++c) {
        const float* column = weights + (p * kInt8Columns + c) * k;
        uint32_t largest = 0;
        for (int64_t i = 0; i < k; ++i) largest = std::max(largest, magnitude_bits(column[i]));
        const float inverse = inverse_of(largest), scale = scale_of(largest);
        for (int64_t i = 0; i < k; ++i) {
          panel[(i / 4 * kInt8Columns + c) * 4 + i % 4] =
              static_cast<std::byte>(quantized(column[i], inverse) + 128);
        }
        std::memcpy(panel + (w.groups() * kInt8Columns + c) * 4, &scale, sizeof scale);
      }
    }
  });
}

namespace scalar {

void quantize_int8(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  const int64_t stride = (k + 3) / 4 * 4;
  for (int64_t r = 0; r < rows; ++r) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < k; ++i) largest = std::max(largest, magnitude_bits(to_float(in[r * k + i])));
    const float inverse = inverse_of(largest);
    scale[r] = scale_of(largest);
    sum[r] = 0;
    for (int64_t i = 0; i < k; ++i) {
      const int v = quantized(to_float(in[r * k + i]), inverse);
      q[r * stride + i] = static_cast<int8_t>(v);
      sum[r] += v;
    }
  }
}

void gemm_int8(const Int8Product& product, int64_t panel) {
  const auto& [w, rows, accumulate, out] = product;
  const std::byte* const cells = w.panels + static_cast<size_t>(panel) * w.panel_bytes();
  const int64_t column = panel * kInt8Columns;
  for (int64_t r = 0; r < rows.count; ++r) {
    const int8_t* q = rows.q + r * w.groups() * 4;
    for (int64_t c = 0; c < std::min<int64_t>(kInt8Columns, w.n - column); ++c) {
      int32_t total = -128 * rows.sum[r];
      for (int64_t i = 0; i < w.groups() * 4; ++i)
        total += static_cast<int>(cells[(i / 4 * kInt8Columns + c) * 4 + i % 4]) * q[i];
      float scale;
      std::memcpy(&scale, cells + (w.groups() * kInt8Columns + c) * 4, sizeof scale);
      const float y = static_cast<float>(total) * scale * rows.scale[r];
      store_sums(&y, 1, accumulate, out + r * w.n + column + c);
    }
  }
}

}  // namespace scalar

#ifdef ISTHMUS_COMPUTE_SERIAL
void quantize_int8(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  scalar::quantize_int8(in, rows, k, q, scale, sum);
}
void gemm_int8(const Int8Product& product, int64_t panel) {
  scalar::gemm_int8(product, panel);
}
#endif

}  // namespace isthmus::kernels
