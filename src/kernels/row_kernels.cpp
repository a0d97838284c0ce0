// SPDX-License-Identifier: Apache-2.0
#ifndef ISTHMUS_COMPUTE_SERIAL
#include "kernels/row_kernels.h"

#include <cmath>
#include <cstdint>

#include "kernels/exp.h"
#include "kernels/scalar.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void rms_norm_f32(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  scalar::rms_norm(x, w, eps, n, width, y);
}
void rms_norm_bf16(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  scalar::rms_norm(x, w, eps, n, width, y);
}
void rope_rows(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin) {
  scalar::rope(x, n, shape, cos, sin);
}
void silu_mul_f32(const float* gate_up, int64_t n, int64_t width, float* y) {
  scalar::silu_mul(gate_up, n, width, y);
}
void silu_mul_bf16(const float* gate_up, int64_t n, int64_t width, bf16* y) {
  scalar::silu_mul(gate_up, n, width, y);
}
void add_bias_rows(float* y, const float* bias, int64_t n, int64_t width) {
  scalar::add_bias(y, bias, n, width);
}
void round_row(const float* x, int64_t count, bf16* y) {
  scalar::round_to_bf16(x, count, y);
}
void widen_row(const bf16* x, int64_t count, float* y) {
  scalar::widen(x, count, y);
}
void add_exp_row(const float* x, int64_t count, float top, float* sums) {
  scalar::add_exp(x, count, top, sums);
}

#else

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int64_t kLanes = hn::MaxLanes(DF());

HWY_INLINE void store_lanes(VF v, float* y) {
  hn::StoreU(v, DF(), y);
}
HWY_INLINE void store_lanes(VF v, bf16* y) {
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> du16;
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, bf16_bits(DF(), v))), du16, reinterpret_cast<uint16_t*>(y));
}
void store_one(float v, float* y) {
  *y = v;
}
void store_one(float v, bf16* y) {
  *y = to_bf16(v);
}

// 16 running sums whatever the vector width, as in the scalar twin.
float sum_of_squares(const float* x, int64_t width) {
  constexpr int kSums = 16 / kLanes;
  VF acc[kSums];
  for (int j = 0; j < kSums; ++j) acc[j] = hn::Zero(DF());
  int64_t i = 0;
  for (; i + 16 <= width; i += 16) {
    for (int j = 0; j < kSums; ++j) {
      const VF v = hn::LoadU(DF(), x + i + j * kLanes);
      acc[j] = hn::Add(acc[j], hn::Mul(v, v));
    }
  }
  float lane[16];
  for (int j = 0; j < kSums; ++j) hn::StoreU(acc[j], DF(), lane + j * kLanes);
  for (int j = 0; i + j < width; ++j) lane[j] += x[i + j] * x[i + j];
  for (int half = 8; half > 0; half /= 2) {
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  }
  return lane[0];
}

template <typename T>
void rms_norm_any(const float* x, const float* w, float eps, int64_t n, int64_t width, T* y) {
  for (int64_t r = 0; r < n; ++r, x += width, y += width) {
    const float inv = 1.0f / std::sqrt(sum_of_squares(x, width) / static_cast<float>(width) + eps);
    const VF vinv = hn::Set(DF(), inv);
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      store_lanes(hn::Mul(hn::Mul(hn::LoadU(DF(), x + i), vinv), hn::LoadU(DF(), w + i)), y + i);
    }
    for (; i < width; ++i) store_one(x[i] * inv * w[i], y + i);
  }
}

template <typename T>
void silu_mul_any(const float* gate_up, int64_t n, int64_t width, T* y) {
  const VF one = hn::Set(DF(), 1.0f);
  for (int64_t r = 0; r < n; ++r, gate_up += 2 * width, y += width) {
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      const VF g = hn::LoadU(DF(), gate_up + i);
      const VF denominator = hn::Add(one, exp_lanes(DF(), hn::Neg(g)));
      store_lanes(hn::Mul(hn::Div(g, denominator), hn::LoadU(DF(), gate_up + width + i)), y + i);
    }
    for (; i < width; ++i) {
      const float g = gate_up[i];
      store_one(g / (1.0f + exp_scalar(-g)) * gate_up[width + i], y + i);
    }
  }
}

// Rotates (a, b) lanes by (c, s).
HWY_INLINE void rotate(VF& a, VF& b, VF c, VF s) {
  const VF rotated_a = hn::Sub(hn::Mul(a, c), hn::Mul(b, s));
  b = hn::Add(hn::Mul(b, c), hn::Mul(a, s));
  a = rotated_a;
}

int rope_split_head(float* x, int half, const float* cos, const float* sin) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    VF a = hn::LoadU(DF(), x + i);
    VF b = hn::LoadU(DF(), x + half + i);
    rotate(a, b, hn::LoadU(DF(), cos + i), hn::LoadU(DF(), sin + i));
    hn::StoreU(a, DF(), x + i);
    hn::StoreU(b, DF(), x + half + i);
  }
  return i;
}

int rope_interleaved_head(float* x, int half, const float* cos, const float* sin) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    VF a, b;
    hn::LoadInterleaved2(DF(), x + 2 * i, a, b);
    rotate(a, b, hn::LoadU(DF(), cos + i), hn::LoadU(DF(), sin + i));
    hn::StoreInterleaved2(a, b, DF(), x + 2 * i);
  }
  return i;
}

void rms_norm_f32(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  rms_norm_any(x, w, eps, n, width, y);
}
void rms_norm_bf16(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  rms_norm_any(x, w, eps, n, width, y);
}
void silu_mul_f32(const float* gate_up, int64_t n, int64_t width, float* y) {
  silu_mul_any(gate_up, n, width, y);
}
void silu_mul_bf16(const float* gate_up, int64_t n, int64_t width, bf16* y) {
  silu_mul_any(gate_up, n, width, y);
}

void rope_rows(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin) {
  const int half = shape.rotary_dim / 2;
  const bool split = shape.pairs == RopePairs::kHalfSplit;
  for (int64_t r = 0; r < n; ++r, cos += half, sin += half) {
    for (int h = 0; h < shape.heads; ++h, x += shape.head_dim) {
      int i = split ? rope_split_head(x, half, cos, sin) : rope_interleaved_head(x, half, cos, sin);
      for (; i < half; ++i) {
        float& a = split ? x[i] : x[2 * i];
        float& b = split ? x[i + half] : x[2 * i + 1];
        const float rotated_a = a * cos[i] - b * sin[i];
        b = b * cos[i] + a * sin[i];
        a = rotated_a;
      }
    }
  }
}

void add_bias_rows(float* y, const float* bias, int64_t n, int64_t width) {
  for (int64_t r = 0; r < n; ++r, y += width) {
    int64_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(DF(), y + i), hn::LoadU(DF(), bias + i)), DF(), y + i);
    }
    for (; i < width; ++i) y[i] += bias[i];
  }
}

void round_row(const float* x, int64_t count, bf16* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_lanes(hn::LoadU(DF(), x + i), y + i);
  for (; i < count; ++i) y[i] = to_bf16(x[i]);
}

void widen_row(const bf16* x, int64_t count, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_lanes(load_bf16(DF(), x + i), y + i);
  for (; i < count; ++i) y[i] = to_float(x[i]);
}

void add_exp_row(const float* x, int64_t count, float top, float* sums) {
  constexpr int kParts = 16 / static_cast<int>(kLanes);
  const VF largest = hn::Set(DF(), top);
  VF acc[kParts];
  for (int j = 0; j < kParts; ++j) acc[j] = hn::LoadU(DF(), sums + j * kLanes);
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int j = 0; j < kParts; ++j) {
      const VF v = hn::LoadU(DF(), x + i + j * kLanes);
      acc[j] = hn::Add(acc[j], exp_lanes(DF(), hn::Sub(v, largest)));
    }
  }
  for (int j = 0; j < kParts; ++j) hn::StoreU(acc[j], DF(), sums + j * kLanes);
  for (; i < count; ++i) sums[0] += exp_scalar(x[i] - top);
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {

HWY_EXPORT(rms_norm_f32);
HWY_EXPORT(rms_norm_bf16);
HWY_EXPORT(rope_rows);
HWY_EXPORT(silu_mul_f32);
HWY_EXPORT(silu_mul_bf16);
HWY_EXPORT(add_bias_rows);
HWY_EXPORT(round_row);
HWY_EXPORT(widen_row);
HWY_EXPORT(add_exp_row);

namespace rows {

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  ISTHMUS_DISPATCH(rms_norm_f32)(x, w, eps, n, width, y);
}
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  ISTHMUS_DISPATCH(rms_norm_bf16)(x, w, eps, n, width, y);
}
void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin) {
  ISTHMUS_DISPATCH(rope_rows)(x, n, shape, cos, sin);
}
void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y) {
  ISTHMUS_DISPATCH(silu_mul_bf16)(gate_up, n, width, y);
}
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y) {
  ISTHMUS_DISPATCH(silu_mul_f32)(gate_up, n, width, y);
}
void add_bias(float* y, const float* bias, int64_t n, int64_t width) {
  ISTHMUS_DISPATCH(add_bias_rows)(y, bias, n, width);
}
void round_to_bf16(const float* x, int64_t count, bf16* y) {
  ISTHMUS_DISPATCH(round_row)(x, count, y);
}
void widen(const bf16* x, int64_t count, float* y) {
  ISTHMUS_DISPATCH(widen_row)(x, count, y);
}
void add_exp(const float* x, int64_t count, float top, float* sums) {
  ISTHMUS_DISPATCH(add_exp_row)(x, count, top, sums);
}

}  // namespace rows
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
