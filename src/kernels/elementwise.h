// SPDX-License-Identifier: Apache-2.0
// Row-wise operations around the matrix products: norms, RoPE, gated activations, rounding. Called by the
// engine thread; OpenMP over rows inside where n is large. Each row is computed by the same instruction
// sequence whatever n is.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace isthmus::kernels {

// y = x / sqrt(mean(x^2) + eps) * w per row. x: [n, E] f32, w: [E] f32. The sum of squares has a fixed order.
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y);
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y);

enum class RopePairs : uint8_t { kHalfSplit, kInterleaved };  // (x[i], x[i + d/2]) or (x[2i], x[2i + 1])

struct RopeShape {
  int heads = 0;
  int head_dim = 0;    // D
  int rotary_dim = 0;  // even, <= D
  RopePairs pairs = RopePairs::kHalfSplit;
};

// Rotates the first `rotary_dim` values of each head in place. x: [n, heads, D] f32; row r uses cos/sin row r
// of [n, rotary_dim / 2] f32, gathered by the caller for the rows' positions.
void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin);

// silu(gate) * up. gate_up: [n, 2F] f32, gate in the first F columns, up in the last F. y: [n, F].
void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y);
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y);

// y += bias per row; bias: [width].
void add_bias(float* y, const float* bias, int64_t n, int64_t width);

void round_to_bf16(const float* x, int64_t count, bf16* y);

}  // namespace isthmus::kernels
