// SPDX-License-Identifier: Apache-2.0
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <algorithm>
#include <cstdint>

#include "kernels/gemm_panels.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_panels_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void multiply_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last,
                     float* out) {
  scalar::gemm_panels(w, in, m, first, last, out);
}

#else

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kVectors = kPanelColumns / kLanes;

// sum[R] += in[R, steps] · panel, in the order of k.
template <int R>
HWY_INLINE void sum_chunk(const float* panel, const float* in, int64_t in_stride, int64_t steps,
                          VF (&sum)[R][kVectors]) {
  for (int64_t i = 0; i < steps; ++i, panel += kPanelColumns) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const VF b = hn::LoadU(DF(), panel + v * kLanes);
      HWY_UNROLL(8)
      for (int r = 0; r < R; ++r)
        sum[r][v] = hn::Add(sum[r][v], hn::Mul(hn::Set(DF(), in[r * in_stride + i]), b));
    }
  }
}

// R rows of one panel. A row's operations are the same whatever R is.
template <int R>
HWY_INLINE void panel_rows(const PanelProduct& w, const float* panel, const float* in, int64_t columns,
                           float* out) {
  HWY_ALIGN float total[R][kPanelColumns] = {};
  for (int64_t chunk = 0; chunk < w.k; chunk += kPanelChunk) {
    VF sum[R][kVectors];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(DF());
    }
    sum_chunk<R>(panel + chunk * kPanelColumns, in + chunk, w.k, std::min<int64_t>(kPanelChunk, w.k - chunk),
                 sum);
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) {
        float* t = total[r] + v * kLanes;
        hn::Store(hn::Add(hn::Load(DF(), t), sum[r][v]), DF(), t);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    float* y = out + r * w.n;
    for (int64_t j = 0; j < columns; ++j) y[j] = w.accumulate ? y[j] + total[r][j] : total[r][j];
  }
}

void multiply_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last,
                     float* out) {
  constexpr int kRows = kVectors == 1 ? 8 : 4;
  for (int64_t p = first; p < last; ++p) {
    const float* panel = w.panels + p * w.k * kPanelColumns;
    const int64_t column = p * kPanelColumns;
    const int64_t columns = std::min<int64_t>(kPanelColumns, w.n - column);
    int64_t r = 0;
    for (; r + kRows <= m; r += kRows)
      panel_rows<kRows>(w, panel, in + r * w.k, columns, out + r * w.n + column);
    for (; r < m; ++r) panel_rows<1>(w, panel, in + r * w.k, columns, out + r * w.n + column);
  }
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {
HWY_EXPORT(multiply_panels);
void gemm_panels(const PanelProduct& w, const float* in, int64_t m, int64_t first, int64_t last, float* out) {
  ISTHMUS_DISPATCH(multiply_panels)(w, in, m, first, last, out);
}
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
