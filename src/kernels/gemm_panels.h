// SPDX-License-Identifier: Apache-2.0
// The GEMM of reference arithmetic, of the serial build and of rungs without bf16: f32 weights in panels of
// 16 output columns, [ceil(N/16)][K][16]. Sums run over k in chunks of 64, product and sum rounded
// separately, so that every rung and every M gives the same bits. Pure functions on borrowed arrays; one
// thread. Not the bf16 GEMM of the full build: gemm_onednn.h.
#pragma once

#include <cstdint>

namespace isthmus::kernels {

inline constexpr int kPanelColumns = 16;
inline constexpr int kPanelChunk = 64;

inline int64_t panel_values(int64_t n, int64_t k) {
  return (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns * k;
}
// panels: panel_values(n, k), zero at first; columns past N stay 0.
void pack_panels(const float* weights, int64_t n, int64_t k, float* panels);

struct PanelProduct {
  const float* panels = nullptr;
  int64_t n = 0;
  int64_t k = 0;
  bool accumulate = false;
};

// out[m, N] (+)= in[m, K] · Wᵀ for the columns of panels [first, last).
void gemm_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last, float* out);
namespace scalar {
void gemm_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last, float* out);
}  // namespace scalar

}  // namespace isthmus::kernels
