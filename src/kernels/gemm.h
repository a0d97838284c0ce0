// SPDX-License-Identifier: Apache-2.0
// Matrix product of prompt arithmetic: activations [M, K] times weights [N, K] transposed. bf16 (products of
// bf16, sums in f32; by oneDNN on x86-64 rungs that multiply bf16), int8 (gemm_int8.h) and f32 (the reference
// arithmetic). Weights are packed once. One calling thread at a time (the engine's); inside, the OpenMP team.
// A row of the result depends on that row of the input only: not on M, not on the thread count. Not for
// generated tokens: see step_linear.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/status.h"

namespace isthmus::kernels {

// Weights in the layout the GEMM wants. Immutable after packing; movable; owns its bytes, or borrows them
// (adopt).
class PackedMatrix {
 public:
  PackedMatrix();
  PackedMatrix(PackedMatrix&&) noexcept;
  PackedMatrix& operator=(PackedMatrix&&) noexcept;
  ~PackedMatrix();

  static Result<PackedMatrix> pack(const bf16* weights, int64_t n, int64_t k);   // [N, K] row-major
  static Result<PackedMatrix> pack(const float* weights, int64_t n, int64_t k);  // [N, K] row-major

  // int8 with a scale per output: weights [N, K] row-major. Also kUnsupported: K over kInt8MaxK.
  static Result<PackedMatrix> pack_int8(const float* weights, int64_t n, int64_t k);

  // Names the bytes that pack() makes on this CPU: equal names, equal meaning of storage(). Differs with the
  // GEMM library's version.
  static std::string layout(DType dtype, int64_t n, int64_t k);
  // Over the storage() of an equal matrix of the same layout(), 64-byte aligned, which stays the caller's and
  // must outlive this. Errors: kMismatch (size), else as pack.
  static Result<PackedMatrix> adopt(DType dtype, int64_t n, int64_t k, std::span<const std::byte> storage);

  int64_t n() const;
  int64_t k() const;
  DType dtype() const;                         // kBF16 or kF32: the type of the activations it multiplies
  std::span<const std::byte> storage() const;  // a multiple of 64 bytes
  size_t bytes() const { return storage().size(); }

  struct Impl;
  const Impl& impl() const { return *impl_; }

 private:
  PackedMatrix(DType dtype, int64_t n, int64_t k);
  static Result<PackedMatrix> with_room(DType dtype, int64_t n, int64_t k);  // of its own, zero

  std::unique_ptr<Impl> impl_;
};

// out[M, N] f32 = in[M, K] · Wᵀ, or += when `accumulate` (the residual add). `in` is f32 for f32 weights,
// else bf16; for int8 weights each of its rows is rounded to int8 first.
void gemm(const PackedMatrix& w, const bf16* in, int64_t m, float* out, bool accumulate = false);
void gemm(const PackedMatrix& w, const float* in, int64_t m, float* out, bool accumulate = false);

// The start-up self-check: do rows get the same bits alone, among 63 and among 512? (Packing a bf16 shape for
// the first time makes the same comparison and falls back to a fixed number of rows, so a false is a bug of
// ours.) Costs three products.
bool gemm_rows_invariant(const PackedMatrix& w);

}  // namespace isthmus::kernels
