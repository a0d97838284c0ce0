// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_panels.h"

#include <algorithm>
#include <cstddef>

#include "kernels/parallel.h"
#include "kernels/store_sums.h"

namespace isthmus::kernels {
namespace {

float widened(float v) {
  return v;
}
float widened(bf16 v) {
  return to_float(v);
}

// A few columns of all rows at a time: what is written to stays in the first-level cache.
template <typename T>
void pack_one(const T* weights, int64_t rows, int64_t k, T* panel) {
  constexpr int64_t kBlock = 16;
  for (int64_t first = 0; first < k; first += kBlock) {
    const int64_t last = std::min(first + kBlock, k);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = first; i < last; ++i) panel[i * kPanelColumns + row] = weights[row * k + i];
    }
  }
}

template <typename T>
void pack(const T* weights, int64_t n, int64_t k, T* panels) {
  constexpr int64_t kValuesPerThread = 1 << 17;
  parallel_rows(panel_count(n), k * kPanelColumns, kValuesPerThread, [=](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t row = p * kPanelColumns;
      pack_one(weights + row * k, std::min<int64_t>(kPanelColumns, n - row), k, panels + row * k);
    }
  });
}

// sums[32] = the products of `steps` activations with as many rows of a panel.
template <typename T>
void sum_chunk(const float* in, const T* panel, int64_t steps, float* sums) {
  std::fill_n(sums, kPanelColumns, 0.0f);
  for (int64_t i = 0; i < steps; ++i, panel += kPanelColumns) {
    for (int j = 0; j < kPanelColumns; ++j) sums[j] += in[i] * widened(panel[j]);
  }
}

template <typename T>
void multiply(const PanelWeights<T>& w, const PanelRows& rows, int64_t panel) {
  const T* weights = w.panels + panel * w.k * kPanelColumns;
  const int64_t column = panel * kPanelColumns;
  const int64_t columns = std::min<int64_t>(kPanelColumns, w.n - column);
  for (int64_t r = 0; r < rows.count; ++r) {
    float* y = rows.out + r * w.n + column;
    for (int64_t chunk = 0; chunk < w.k; chunk += kPanelChunk) {
      float sums[kPanelColumns];
      sum_chunk(rows.in + r * rows.in_stride + chunk, weights + chunk * kPanelColumns,
                std::min<int64_t>(kPanelChunk, w.k - chunk), sums);
      store_sums(sums, columns, rows.accumulate || chunk > 0, y);
    }
  }
}

}  // namespace

void pack_panels(const bf16* weights, int64_t n, int64_t k, bf16* panels) {
  pack(weights, n, k, panels);
}
void pack_panels(const float* weights, int64_t n, int64_t k, float* panels) {
  pack(weights, n, k, panels);
}

namespace scalar {
void gemm_panel(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}
void gemm_panel(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}
}  // namespace scalar

#ifdef ISTHMUS_COMPUTE_SERIAL
void gemm_panel(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}
void gemm_panel(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}
#endif

}  // namespace isthmus::kernels
