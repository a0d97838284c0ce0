// SPDX-License-Identifier: Apache-2.0
// Matrix product of prompt arithmetic: activations [M, K] times weights [N, K] transposed. bf16 (products of
// bf16, sums in f32; oneDNN) and f32 (the reference arithmetic). Weights are packed once. One calling thread
// at a time (the engine's); inside, the OpenMP team. A row of the result depends on that row of the input
// only: not on M, not on the thread count. Not for generated tokens: see step_linear.h.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/status.h"

namespace isthmus::kernels {

// Weights in the layout the GEMM wants. Immutable after packing; movable; owns its bytes.
class PackedMatrix {
 public:
  PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  static Result<PackedMatrix> pack(const bf16* weights, int64_t n, int64_t k);   // [N, K] row-major
  static Result<PackedMatrix> pack(const float* weights, int64_t n, int64_t k);  // [N, K] row-major

  int64_t n() const;
  int64_t k() const;
  DType dtype() const;   // kBF16 or kF32: the type of the activations it multiplies
  size_t bytes() const;  // of packed storage

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// out[M, N] f32 = in[M, K] · Wᵀ, or += when `accumulate` (the residual add). `in` has w.dtype().
void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate = false);
void gemm(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate = false);

// The start-up self-check: do rows get the same bits alone, among 63 and among 512? (Packing a bf16 shape for
// the first time makes the same comparison and falls back to a fixed number of rows, so a false is a bug of
// ours.) Costs three products.
bool gemm_rows_invariant(const PackedMatrix& w);

}  // namespace isthmus::kernels
