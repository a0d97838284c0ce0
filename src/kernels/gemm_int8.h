// SPDX-License-Identifier: Apache-2.0
// The int8 matrix product of prompt arithmetic: weights with one scale per output column, activations with
// one per row, both symmetric; exact integer sums, so a row's bits depend on neither M, threads nor rung.
// Private to src/kernels: PackedMatrix is its front. Pure functions on borrowed arrays, one thread.
//
// Panels of 64 columns: [ceil(N / 64)], each [ceil(K / 4)][64] cells of 4 weights (u8: q + 128; 128 where
// there is none), then [64] f32 scales. Every rung reads the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"

namespace isthmus::kernels {

inline constexpr int kInt8Columns = 64;
inline constexpr float kInt8Smallest =
    1e-35f;  // rows and columns below it are zero: 127 / largest could overflow
inline constexpr int64_t kInt8MaxK = 65536;  // sums stay in 32 bits

struct Int8Weights {
  const std::byte* panels = nullptr;
  int64_t n = 0;
  int64_t k = 0;

  int64_t groups() const { return (k + 3) / 4; }
  int64_t panel_count() const { return (n + kInt8Columns - 1) / kInt8Columns; }
  size_t panel_bytes() const { return static_cast<size_t>(groups() + 1) * kInt8Columns * 4; }
  size_t bytes() const { return static_cast<size_t>(panel_count()) * panel_bytes(); }
};

// weights: [N, K] f32. Scale of a column: largest magnitude / 127; a column with a value that is not finite
// becomes NaN. `panels`: Int8Weights::bytes(), zero at first.
void pack_int8(const float* weights, int64_t n, int64_t k, std::byte* panels);

// Rows of activations. q: [rows, 4 * groups] s8, zero behind K; x ~ scale * q.
struct Int8Rows {
  const int8_t* q = nullptr;
  const float* scale = nullptr;  // [rows]: largest magnitude / 127; NaN where a value is not finite
  const int32_t* sum = nullptr;  // [rows]: of q
  int64_t count = 0;
};

// in: [rows, K] bf16; q as above, its padding zero already.
void quantize_int8(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum);

struct Int8Product {
  Int8Weights w;
  Int8Rows rows;
  bool accumulate = false;
  float* out = nullptr;  // [M, N]
};

// out[all rows, columns of `panel`] (+)= (sum of products * weight scale) * row scale.
void gemm_int8(const Int8Product& product, int64_t panel);

namespace scalar {
void quantize_int8(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum);
void gemm_int8(const Int8Product& product, int64_t panel);
}  // namespace scalar

}  // namespace isthmus::kernels
