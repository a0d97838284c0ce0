// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_panels.h"

#include <algorithm>
#include <cstddef>

namespace isthmus::kernels {

void pack_panels(const float* weights, int64_t n, int64_t k, float* panels) {
  for (int64_t row = 0; row < n; ++row) {
    float* panel = panels + (row / kPanelColumns) * k * kPanelColumns + row % kPanelColumns;
    for (int64_t i = 0; i < k; ++i) panel[i * kPanelColumns] = weights[row * k + i];
  }
}

namespace scalar {

void gemm_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last, float* out) {
  for (int64_t p = first; p < last; ++p) {
    const float* panel = w.panels + p * w.k * kPanelColumns;
    const int64_t column = p * kPanelColumns;
    const int64_t columns = std::min<int64_t>(kPanelColumns, w.n - column);
    for (int64_t r = 0; r < m; ++r) {
      float total[kPanelColumns] = {};
      for (int64_t chunk = 0; chunk < w.k; chunk += kPanelChunk) {
        float sum[kPanelColumns] = {};
        const int64_t end = std::min<int64_t>(chunk + kPanelChunk, w.k);
        for (int64_t i = chunk; i < end; ++i) {
          const float a = in[r * w.k + i];
          for (int j = 0; j < kPanelColumns; ++j) sum[j] += a * panel[i * kPanelColumns + j];
        }
        for (int j = 0; j < kPanelColumns; ++j) total[j] += sum[j];
      }
      float* y = out + r * w.n + column;
      for (int64_t j = 0; j < columns; ++j) y[j] = w.accumulate ? y[j] + total[j] : total[j];
    }
  }
}

}  // namespace scalar

#ifdef ISTHMUS_COMPUTE_SERIAL
void gemm_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last, float* out) {
  scalar::gemm_panels(w, in, m, first, last, out);
}
#endif

}  // namespace isthmus::kernels
