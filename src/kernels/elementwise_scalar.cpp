// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/exp.h"
#include "kernels/scalar.h"

namespace isthmus::kernels::scalar {
namespace {

void store(float v, float* y) {
  *y = v;
}
void store(float v, bf16* y) {
  *y = to_bf16(v);
}

// The order is that of 16 SIMD lanes: lane sums first, then halves folded together.
float sum_of_squares(const float* x, int64_t width) {
  float lane[16] = {};
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) {
    for (int j = 0; j < 16; ++j) lane[j] += x[i + j] * x[i + j];
  }
  for (int j = 0; i + j < width; ++j) lane[j] += x[i + j] * x[i + j];
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  }
  return lane[0];
}

template <typename T>
void rms_norm_rows(const float* x, const float* w, float eps, int64_t n, int64_t width, T* y) {
  for (int64_t r = 0; r < n; ++r, x += width, y += width) {
    const float inv = 1.0f / std::sqrt(sum_of_squares(x, width) / static_cast<float>(width) + eps);
    for (int64_t i = 0; i < width; ++i) store(x[i] * inv * w[i], &y[i]);
  }
}

template <typename T>
void silu_mul_rows(const float* gate_up, int64_t n, int64_t width, T* y) {
  for (int64_t r = 0; r < n; ++r, gate_up += 2 * width, y += width) {
    for (int64_t i = 0; i < width; ++i) {
      const float g = gate_up[i];
      store(g / (1.0f + exp_scalar(-g)) * gate_up[width + i], &y[i]);
    }
  }
}

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  rms_norm_rows(x, w, eps, n, width, y);
}
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  rms_norm_rows(x, w, eps, n, width, y);
}

void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin) {
  const int half = shape.rotary_dim / 2;
  const bool split = shape.pairs == RopePairs::kHalfSplit;
  for (int64_t r = 0; r < n; ++r, cos += half, sin += half) {
    for (int h = 0; h < shape.heads; ++h, x += shape.head_dim) {
      for (int i = 0; i < half; ++i) {
        float& a = split ? x[i] : x[2 * i];
        float& b = split ? x[i + half] : x[2 * i + 1];
        const float rotated_a = a * cos[i] - b * sin[i];
        b = b * cos[i] + a * sin[i];
        a = rotated_a;
      }
    }
  }
}

void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y) {
  silu_mul_rows(gate_up, n, width, y);
}
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y) {
  silu_mul_rows(gate_up, n, width, y);
}

void add_bias(float* y, const float* bias, int64_t n, int64_t width) {
  for (int64_t r = 0; r < n; ++r, y += width) {
    for (int64_t i = 0; i < width; ++i) y[i] += bias[i];
  }
}

void round_to_bf16(const float* x, int64_t count, bf16* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = to_bf16(x[i]);
}

void widen(const bf16* x, int64_t count, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = to_float(x[i]);
}

void add_exp(const float* x, int64_t count, float top, float* sums) {
  const int64_t whole = count / 16 * 16;
  for (int64_t i = 0; i < count; ++i) sums[i < whole ? i % 16 : 0] += exp_scalar(x[i] - top);
}

}  // namespace isthmus::kernels::scalar
