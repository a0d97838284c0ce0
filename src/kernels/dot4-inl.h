// SPDX-License-Identifier: Apache-2.0
// dot4_u8s8: the one 8-bit primitive that Highway 1.0.3 lacks. Exact integers, so every rung agrees. Included
// once per target.
#include "kernels/dot-inl.h"

#if defined(ISTHMUS_KERNELS_DOT4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_KERNELS_DOT4_INL_H_
#undef ISTHMUS_KERNELS_DOT4_INL_H_
#else
#define ISTHMUS_KERNELS_DOT4_INL_H_
#endif

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {

#if !ISTHMUS_SCALAR_PASS

// sum[i] + w[4i] * a[4i] + ... + w[4i + 3] * a[4i + 3], no saturation. w: 4 u8 and a: 4 s8 in each 32-bit
// lane, a >= -127. kSmall promises w <= 127, which saves the exact but longer way where products of bytes
// saturate at 16 bits.
template <bool kSmall, class VI>
HWY_INLINE VI dot4_u8s8(VI w, VI a, VI sum) {
  const hn::DFromV<VI> di;
#if HWY_TARGET == HWY_AVX3
  (void)di;
  return VI{_mm512_dpbusd_epi32(sum.raw, w.raw, a.raw)};
#elif HWY_TARGET == HWY_AVX2
  if constexpr (kSmall) {
    const __m256i pairs = _mm256_maddubs_epi16(w.raw, a.raw);
    return hn::Add(sum, VI{_mm256_madd_epi16(pairs, _mm256_set1_epi16(1))});
  }
  const hn::Repartition<int16_t, decltype(di)> d16;
  const auto a16 = hn::BitCast(d16, a), w16 = hn::BitCast(d16, w);
  const auto even_a = hn::ShiftRight<8>(hn::ShiftLeft<8>(a16)), odd_a = hn::ShiftRight<8>(a16);
  const auto even_w = hn::And(w16, hn::Set(d16, 0xff));
  const auto odd_w = hn::And(hn::ShiftRight<8>(w16), hn::Set(d16, 0xff));
  const VI even{_mm256_madd_epi16(even_w.raw, even_a.raw)}, odd{_mm256_madd_epi16(odd_w.raw, odd_a.raw)};
  return hn::Add(sum, hn::Add(even, odd));
#elif HWY_TARGET == HWY_NEON
  // s8 products; a u8 above 127 is w - 128, and 128 * a is added back.
  const int8x16_t a8 = vreinterpretq_s8_s32(a.raw);
  int8x16_t w8 = vreinterpretq_s8_s32(w.raw);
  if constexpr (!kSmall) w8 = veorq_s8(w8, vdupq_n_s8(-128));
#if defined(__ARM_FEATURE_DOTPROD)
  (void)di;
  int32x4_t total = vdotq_s32(sum.raw, w8, a8);
  if constexpr (!kSmall) {
    const int8x16_t half = vdupq_n_s8(64);
    total = vdotq_s32(vdotq_s32(total, half, a8), half, a8);
  }
  return VI{total};
#else
  const int16x8_t low = vmull_s8(vget_low_s8(w8), vget_low_s8(a8));
  const int16x8_t high = vmull_s8(vget_high_s8(w8), vget_high_s8(a8));
  VI total = hn::Add(sum, VI{vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high))});
  if constexpr (!kSmall) total = hn::Add(total, hn::ShiftLeft<7>(VI{vpaddlq_s16(vpaddlq_s8(a8))}));
  (void)di;
  return total;
#endif
#else
#error "dot4_u8s8: no form for this target"
#endif
}

#endif  // !ISTHMUS_SCALAR_PASS

}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#endif  // per-target guard
