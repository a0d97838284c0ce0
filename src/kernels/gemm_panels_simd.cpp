// SPDX-License-Identifier: Apache-2.0
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/gemm_panels.h"
#include "kernels/row_kernels.h"
#include "kernels/simd.h"
#include "kernels/store_sums.h"

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

void multiply_bf16(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel) {
  scalar::gemm_panel(w, rows, panel);
}
void multiply_f32(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel) {
  scalar::gemm_panel(w, rows, panel);
}

#else

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
// Sums that stay in registers: 12 x 2 of AVX-512's 32, 6 x 2 of AVX2's 16, 6 x 4 of NEON's 32.
constexpr int kVectors = kLanes == 4 ? 4 : 2;
constexpr int kRows = kLanes == 16 ? 12 : 6;
constexpr int kFewRows = kRows / 3;
constexpr int kStrip = kVectors * kLanes;  // columns at once
static_assert(kPanelColumns % kStrip == 0);

// A product of bf16 is exact, so that it may be fused with the addition.
template <typename T>
HWY_INLINE VF multiply_add(VF a, VF b, VF sum) {
  if constexpr (std::is_same_v<T, bf16>) {
    return hn::MulAdd(a, b, sum);
  } else {
    return hn::Add(sum, hn::Mul(a, b));
  }
}

template <typename T, int... kVector>
HWY_INLINE void add_products(VF a, const VF (&b)[kVectors], VF (&sum)[kVectors],
                             std::integer_sequence<int, kVector...>) {
  ((sum[kVector] = multiply_add<T>(a, b[kVector], sum[kVector])), ...);
}

template <int... kVector>
HWY_INLINE void clear(VF (&sum)[kVectors], std::integer_sequence<int, kVector...>) {
  ((sum[kVector] = hn::Zero(DF())), ...);
}

template <int... kVector>
HWY_INLINE void store(const VF (&sum)[kVectors], bool add, float* y, std::integer_sequence<int, kVector...>) {
  (hn::StoreU(add ? hn::Add(hn::LoadU(DF(), y + kVector * kLanes), sum[kVector]) : sum[kVector], DF(),
              y + kVector * kLanes),
   ...);
}

// One strip of a chunk: its weights as f32 [steps][kPanelColumns], and how rows lie.
struct Strip {
  const float* weights;
  int64_t steps;
  int64_t in_stride;
  int64_t out_stride;
  int64_t columns;  // kStrip, but for the last one
  bool add;
};

// Rows kRow... A row's operations are the same in any company.
template <typename T, int... kVector, int... kRow>
HWY_INLINE void multiply_rows(const Strip& s, const float* in, float* out,
                              std::integer_sequence<int, kVector...> vectors,
                              std::integer_sequence<int, kRow...>) {
  VF sum[sizeof...(kRow)][kVectors];
  (clear(sum[kRow], vectors), ...);
  const float* const row[] = {in + kRow * s.in_stride...};
  const float* weights = s.weights;
  for (int64_t i = 0; i < s.steps; ++i, weights += kPanelColumns) {
    const VF b[kVectors] = {hn::LoadU(DF(), weights + kVector * kLanes)...};
    (add_products<T>(hn::Set(DF(), row[kRow][i]), b, sum[kRow], vectors), ...);
  }
  if (s.columns == kStrip) {
    (store(sum[kRow], s.add, out + kRow * s.out_stride, vectors), ...);
    return;
  }
  HWY_ALIGN float y[sizeof...(kRow)][kStrip];
  (store(sum[kRow], false, y[kRow], vectors), ...);
  (store_sums(y[kRow], s.columns, s.add, out + kRow * s.out_stride), ...);
}

template <typename T>
void multiply_strip(const Strip& s, const float* in, float* out, int64_t rows) {
  constexpr auto vectors = std::make_integer_sequence<int, kVectors>();
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    multiply_rows<T>(s, in + r * s.in_stride, out + r * s.out_stride, vectors,
                     std::make_integer_sequence<int, kRows>());
  }
  for (; r + kFewRows <= rows; r += kFewRows) {
    multiply_rows<T>(s, in + r * s.in_stride, out + r * s.out_stride, vectors,
                     std::make_integer_sequence<int, kFewRows>());
  }
  for (; r < rows; ++r) {
    multiply_rows<T>(s, in + r * s.in_stride, out + r * s.out_stride, vectors,
                     std::make_integer_sequence<int, 1>());
  }
}

// The chunk as f32: where it lies, or widened into `room`, which all rows then find in the first-level cache.
HWY_INLINE const float* chunk_weights(const float* panel, int64_t, float*) {
  return panel;
}
HWY_INLINE const float* chunk_weights(const bf16* panel, int64_t steps, float* room) {
  rows::widen(panel, steps * kPanelColumns, room);
  return room;
}

template <typename T>
HWY_INLINE void multiply(const PanelWeights<T>& w, const PanelRows& rows, int64_t panel) {
  HWY_ALIGN float room[std::is_same_v<T, bf16> ? kPanelChunk * kPanelColumns : 1];
  const T* weights = w.panels + panel * w.k * kPanelColumns;
  const int64_t column = panel * kPanelColumns;
  for (int64_t chunk = 0; chunk < w.k; chunk += kPanelChunk) {
    const int64_t steps = std::min<int64_t>(kPanelChunk, w.k - chunk);
    const float* wide = chunk_weights(weights + chunk * kPanelColumns, steps, room);
    for (int at = 0; at < kPanelColumns && column + at < w.n; at += kStrip) {
      const Strip strip{.weights = wide + at,
                        .steps = steps,
                        .in_stride = rows.in_stride,
                        .out_stride = w.n,
                        .columns = std::min<int64_t>(kStrip, w.n - column - at),
                        .add = rows.accumulate || chunk > 0};
      multiply_strip<T>(strip, rows.in + chunk, rows.out + column + at, rows.count);
    }
  }
}

void multiply_bf16(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}
void multiply_f32(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel) {
  multiply(w, rows, panel);
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {
HWY_EXPORT(multiply_bf16);
HWY_EXPORT(multiply_f32);
void gemm_panel(const PanelWeights<bf16>& w, const PanelRows& rows, int64_t panel) {
  ISTHMUS_DISPATCH(multiply_bf16)(w, rows, panel);
}
void gemm_panel(const PanelWeights<float>& w, const PanelRows& rows, int64_t panel) {
  ISTHMUS_DISPATCH(multiply_f32)(w, rows, panel);
}
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
