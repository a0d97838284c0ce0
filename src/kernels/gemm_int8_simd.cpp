// SPDX-License-Identifier: Apache-2.0
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/gemm_int8.h"
#include "kernels/simd.h"
#include "kernels/store_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_int8_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot4-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void multiply(const Int8Product& product, int64_t panel) {
  scalar::gemm_int8(product, panel);
}
void quantize(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  scalar::quantize_int8(in, rows, k, q, scale, sum);
}

#else

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using D8 = hn::Repartition<uint8_t, DI>;
using VI = hn::Vec<DI>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
// Sums that stay in registers: 6 x 4 of AVX-512's 32, 4 x 2 of AVX2's 16, 4 x 4 of NEON's 32.
constexpr int kVectors = kLanes == 8 ? 2 : 4;
constexpr int kRows = kLanes == 16 ? 6 : 4;
constexpr int kStrip = kVectors * kLanes;  // columns at once
static_assert(kInt8Columns % kStrip == 0);

struct Strip {
  const uint8_t* cells;  // of its first column, group 0
  const float* scales;
  int64_t groups;
  float* out;  // of the first row
  int64_t out_stride;
  int64_t columns;  // kStrip, but for the last one
  bool accumulate;
};

HWY_INLINE VI load_cells(const uint8_t* p) {
  return hn::BitCast(DI(), hn::LoadU(D8(), p));
}
HWY_INLINE VI splat4(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return hn::Set(DI(), four);
}

template <int... kVector>
HWY_INLINE void fill(VI (&sum)[kVectors], VI value, std::integer_sequence<int, kVector...>) {
  ((sum[kVector] = value), ...);
}

template <int... kVector>
HWY_INLINE void add_products(const VI (&w)[kVectors], VI a, VI (&sum)[kVectors],
                             std::integer_sequence<int, kVector...>) {
  ((sum[kVector] = dot4_u8s8<false>(w[kVector], a, sum[kVector])), ...);
}

HWY_INLINE void store(hn::Vec<DF> v, bool accumulate, float* y) {
  hn::StoreU(accumulate ? hn::Add(hn::LoadU(DF(), y), v) : v, DF(), y);
}

template <int... kVector>
HWY_INLINE void store_scaled(const VI (&sum)[kVectors], const float* scales, float row_scale, bool accumulate,
                             float* y, std::integer_sequence<int, kVector...>) {
  const auto factor = hn::Set(DF(), row_scale);
  (store(hn::Mul(hn::Mul(hn::ConvertTo(DF(), sum[kVector]), hn::LoadU(DF(), scales + kVector * kLanes)),
                 factor),
         accumulate, y + kVector * kLanes),
   ...);
}

// Rows row + kRow... times one strip. Integer sums: any number of rows gives the same.
template <int... kVector, int... kRow>
HWY_INLINE void multiply_rows(const Strip& s, const Int8Rows& rows, int64_t row,
                              std::integer_sequence<int, kVector...> vectors,
                              std::integer_sequence<int, kRow...>) {
  VI sum[sizeof...(kRow)][kVectors];
  (fill(sum[kRow], hn::Set(DI(), -128 * rows.sum[row + kRow]), vectors), ...);
  const int8_t* const q[] = {rows.q + (row + kRow) * s.groups * 4 ...};
  const uint8_t* cells = s.cells;
  for (int64_t g = 0; g < s.groups; ++g, cells += kInt8Columns * 4) {
    const VI w[kVectors] = {load_cells(cells + kVector * kLanes * 4)...};
    (add_products(w, splat4(q[kRow] + g * 4), sum[kRow], vectors), ...);
  }
  float* const out = s.out + row * s.out_stride;
  if (s.columns == kStrip) {
    (store_scaled(sum[kRow], s.scales, rows.scale[row + kRow], s.accumulate, out + kRow * s.out_stride,
                  vectors),
     ...);
    return;
  }
  HWY_ALIGN float y[sizeof...(kRow)][kStrip];
  (store_scaled(sum[kRow], s.scales, rows.scale[row + kRow], false, y[kRow], vectors), ...);
  (store_sums(y[kRow], s.columns, s.accumulate, out + kRow * s.out_stride), ...);
}

void multiply(const Int8Product& product, int64_t panel) {
  const auto& [w, rows, accumulate, out] = product;
  const auto* base =
      reinterpret_cast<const uint8_t*>(w.panels) + static_cast<size_t>(panel) * w.panel_bytes();
  const auto* scales = reinterpret_cast<const float*>(base + w.groups() * kInt8Columns * 4);
  constexpr auto vectors = std::make_integer_sequence<int, kVectors>();
  for (int at = 0; at < kInt8Columns; at += kStrip) {
    const int64_t column = panel * kInt8Columns + at;
    const int64_t columns = std::min<int64_t>(kStrip, w.n - column);
    if (columns <= 0) return;
    const Strip strip{base + at * 4, scales + at, w.groups(), out + column, w.n, columns, accumulate};
    int64_t r = 0;
    for (; r + kRows <= rows.count; r += kRows)
      multiply_rows(strip, rows, r, vectors, std::make_integer_sequence<int, kRows>());
    for (; r < rows.count; ++r) multiply_rows(strip, rows, r, vectors, std::make_integer_sequence<int, 1>());
  }
}

// One row of a length that is a multiple of the vector; the scalar twin takes others.
void quantize_row(const bf16* in, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  const auto positive = hn::Set(DU(), 0x7fffffffu);
  auto largest = hn::Zero(DU());
  for (int64_t i = 0; i < k; i += kLanes)
    largest = hn::Max(largest, hn::And(hn::BitCast(DU(), load_bf16(DF(), in + i)), positive));
  const float magnitude = hn::GetLane(hn::BitCast(DF(), hn::MaxOfLanes(DU(), largest)));
  if (!(magnitude <= std::numeric_limits<float>::max()) || magnitude < kInt8Smallest) {
    scalar::quantize_int8(in, 1, k, q, scale, sum);
    return;
  }
  *scale = magnitude / 127.0f;
  const auto inverse = hn::Set(DF(), 127.0f / magnitude);
  const hn::Rebind<int8_t, DI> d8;
  VI total = hn::Zero(DI());
  for (int64_t i = 0; i < k; i += kLanes) {
    const VI v = hn::NearestInt(hn::Mul(load_bf16(DF(), in + i), inverse));
    total = hn::Add(total, v);
    hn::StoreU(hn::DemoteTo(d8, v), d8, q + i);
  }
  *sum = hn::GetLane(hn::SumOfLanes(DI(), total));
}

void quantize(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  if (k % kLanes != 0) {
    scalar::quantize_int8(in, rows, k, q, scale, sum);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) quantize_row(in + r * k, k, q + r * k, scale + r, sum + r);
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {
HWY_EXPORT(multiply);
HWY_EXPORT(quantize);
void gemm_int8(const Int8Product& product, int64_t panel) {
  ISTHMUS_DISPATCH(multiply)(product, panel);
}
void quantize_int8(const bf16* in, int64_t rows, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  ISTHMUS_DISPATCH(quantize)(in, rows, k, q, scale, sum);
}
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
