// SPDX-License-Identifier: Apache-2.0
// Matrix product of step arithmetic: 1..16 activation rows times weights kept in the file's quantized blocks,
// repacked once for the SIMD width. Called by the engine thread; OpenMP over output columns inside; weights
// are streamed once for all rows. Batch-invariant: a row's bits are the same alone or among 15 others. Not
// for prompts: see gemm.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/status.h"

namespace isthmus::kernels {

inline constexpr int kMaxStepRows = 16;

class StepMatrix {
 public:
  StepMatrix();
  StepMatrix(StepMatrix&&) noexcept;
  StepMatrix& operator=(StepMatrix&&) noexcept;
  ~StepMatrix();

  // `blocks`: [N, row_bytes(dtype, K)] as in the file. Types: kF32 kF16 kBF16 kQ4_0 kQ4_1 kQ5_0 kQ5_1 kQ8_0
  // kQ4_K kQ5_K kQ6_K kMxfp4. Errors: kUnsupported (type), kInvalidArgument (K not a multiple of the block).
  static Result<StepMatrix> pack(DType dtype, const std::byte* blocks, int64_t n, int64_t k);

  int64_t n() const;
  int64_t k() const;
  DType dtype() const;
  size_t bytes() const;

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// out[rows, N] f32 = in[rows, K] f32 · Wᵀ, or += when `accumulate`. 1 <= rows <= kMaxStepRows.
// Quantized types take activations as int8 per block of 32 with an f32 scale (and block sum where the type
// has a minimum); f32/f16/bf16 weights multiply f32 activations.
void step_linear(const StepMatrix& w, const float* in, int rows, float* out, bool accumulate = false);

}  // namespace isthmus::kernels
