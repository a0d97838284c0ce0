// SPDX-License-Identifier: Apache-2.0
// The matrix product of rungs that multiply bf16, on x86-64: the only user of oneDNN, whose exceptions end
// here. Weights lie in the blocked layout that oneDNN chooses; primitives are made once per (shape, rows,
// threads) and shared by all matrices of that shape. Owned by PackedMatrix; run() from any thread (the cache
// of primitives is locked, execution is not). Not for f32: gemm_panels.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/float16.h"
#include "base/status.h"

namespace isthmus::kernels {

class OneDnnMatrix {
 public:
  struct State;
  explicit OneDnnMatrix(std::unique_ptr<State> state);
  ~OneDnnMatrix();

  // weights: [N, K] row-major. kUnsupported where this CPU has no bf16 product in oneDNN.
  static Result<std::unique_ptr<OneDnnMatrix>> pack(const bf16* weights, int64_t n, int64_t k);

  // Over another's storage(), which must outlive this. kMismatch: another size.
  static Result<std::unique_ptr<OneDnnMatrix>> adopt(std::span<const std::byte> storage, int64_t n,
                                                     int64_t k);
  static std::string layout(int64_t n, int64_t k);  // see PackedMatrix::layout

  // out[m, N] f32 (+)= in[m, K] · Wᵀ. A failure inside oneDNN after a successful pack is our bug: it ends the
  // process.
  void run(const bf16* in, int64_t m, float* out, bool accumulate) const;
  std::span<const std::byte> storage() const;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace isthmus::kernels
