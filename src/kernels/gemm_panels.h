// SPDX-License-Identifier: Apache-2.0
// The matrix product in f32 multiply-adds: of bf16 values in prompt arithmetic, where the rung has no fast
// product of bf16 (else gemm_onednn.h), and of f32 values in reference arithmetic. Weights lie in panels of
// 32 output columns, [ceil(N / 32)][K][32]. Sums run over k in chunks of 192, which are added in order. Every
// rung and every M gives the same bits: products of bf16 are exact in f32 (unless they are denormals or
// infinite), and products of f32 are rounded before they are added. Private to src/kernels: PackedMatrix is
// its front. Pure functions on borrowed arrays; one thread, but for packing.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace isthmus::kernels {

inline constexpr int kPanelColumns = 32;
inline constexpr int kPanelChunk = 192;

inline int64_t panel_count(int64_t n) {
  return (n + kPanelColumns - 1) / kPanelColumns;
}
inline int64_t panel_values(int64_t n, int64_t k) {
  return panel_count(n) * kPanelColumns * k;
}
// weights: [N, K] row-major; panels: panel_values(n, k), zero at first; columns past N stay 0. By all
// threads.
void pack_panels(const bf16* weights, int64_t n, int64_t k, bf16* panels);
void pack_panels(const float* weights, int64_t n, int64_t k, float* panels);

// T: the type of the weights, bf16 or float.
template <typename T>
struct PanelWeights {
  const T* panels = nullptr;
  int64_t n = 0;
  int64_t k = 0;
};

// Activations and where their products go. Of bf16 weights they are bf16 values, too, but already widened.
struct PanelRows {
  const float* in = nullptr;  // [count, in_stride], of which K count
  int64_t in_stride = 0;
  int64_t count = 0;
  bool accumulate = false;
  float* out = nullptr;  // [count, N]
};

// out (+)= in · Wᵀ for the columns of one panel.
void gemm_panel(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel);
void gemm_panel(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel);
namespace scalar {
void gemm_panel(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel);
void gemm_panel(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel);
}  // namespace scalar

}  // namespace isthmus::kernels
