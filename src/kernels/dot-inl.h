// SPDX-License-Identifier: Apache-2.0
// dot2_bf16: the one bf16 primitive that Highway 1.0.3 lacks, on targets that have it, and the target
// attributes of a rung. Included once per target (no #pragma once: the guard toggles). Only this file and
// dot4-inl.h use raw intrinsics.
#include "hwy/highway.h"

#include "base/float16.h"

#undef ISTHMUS_BEFORE_NAMESPACE
#undef ISTHMUS_AFTER_NAMESPACE
#undef ISTHMUS_SCALAR_PASS
#undef ISTHMUS_HAS_DOT2_BF16
#if HWY_TARGET == HWY_AVX3
// Highway's own functions have a subset of these attributes, so they still inline into ours. A CPU that runs
// this target may lack BF16 (rung.h): only what multiplies_bf16() chooses uses it.
#define ISTHMUS_BEFORE_NAMESPACE()                             \
  HWY_PUSH_ATTRIBUTES(HWY_TARGET_STR ",avx512vnni,avx512bf16") \
  static_assert(true, "For requiring trailing semicolon")
#else
#define ISTHMUS_BEFORE_NAMESPACE() HWY_BEFORE_NAMESPACE()
#endif
#define ISTHMUS_AFTER_NAMESPACE() HWY_AFTER_NAMESPACE()
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define ISTHMUS_SCALAR_PASS 1
#else
#define ISTHMUS_SCALAR_PASS 0
#endif
#if HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC))
#define ISTHMUS_HAS_DOT2_BF16 1
#else
#define ISTHMUS_HAS_DOT2_BF16 0
#endif

#if defined(ISTHMUS_KERNELS_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_KERNELS_DOT_INL_H_
#undef ISTHMUS_KERNELS_DOT_INL_H_
#else
#define ISTHMUS_KERNELS_DOT_INL_H_
#endif

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if ISTHMUS_HAS_DOT2_BF16
// acc[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1]. a, b: pairs of bf16 in 32-bit lanes, the first of a pair in the
// low half. Denormal inputs, sums and results are flushed to zero.
template <class D32, class VF = hn::Vec<D32>, class VU = hn::Vec<hn::RebindToUnsigned<D32>>>
HWY_INLINE VF dot2_bf16(D32, VU a, VU b, VF acc) {
#if HWY_TARGET == HWY_AVX3
  static_assert(hn::MaxLanes(D32()) == 16, "full vectors only");
  return VF{_mm512_dpbf16_ps(acc.raw, reinterpret_cast<__m512bh>(a.raw), reinterpret_cast<__m512bh>(b.raw))};
#else
  // Both products are added before acc is, and every sum is rounded to odd: the same bits on every CPU, as
  // long as nothing sets FPCR.EBF.
  return VF{vbfdotq_f32(acc.raw, vreinterpretq_bf16_u32(a.raw), vreinterpretq_bf16_u32(b.raw))};
#endif
}
#endif

template <class D32, class VF = hn::Vec<D32>>
HWY_INLINE VF load_bf16(D32 df, const bf16* in) {
  const hn::RebindToUnsigned<D32> du;
  const hn::Rebind<uint16_t, D32> du16;
  const auto half = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(in));
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, half)));
}

// f32 lanes to the bits of bf16 in the low half of each 32-bit lane: nearest even, NaN stays NaN
// (base/float16.h to_bf16).
template <class D32, class VF = hn::Vec<D32>, class VU = hn::Vec<hn::RebindToUnsigned<D32>>>
HWY_INLINE VU bf16_bits(D32 df, VF x) {
  const hn::RebindToUnsigned<D32> du;
  const VU u = hn::BitCast(du, x);
  const VU upper = hn::ShiftRight<16>(u);
  const VU odd = hn::And(upper, hn::Set(du, 1));
  const VU rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(du, 0x7fff))));
  const auto nan = hn::RebindMask(du, hn::IsNaN(x));
  (void)df;
  return hn::IfThenElse(nan, hn::Or(upper, hn::Set(du, 0x40)), rounded);
}

#if ISTHMUS_HAS_DOT2_BF16
// Two vectors to 2 * lanes bf16 in memory, for values whose denormals do not matter: AVX-512 flushes them to
// zero.
template <class D32, class VF = hn::Vec<D32>>
HWY_INLINE void store_bf16_pair(D32 df, VF first, VF second, uint16_t* out) {
#if HWY_TARGET == HWY_AVX3
  (void)df;
  _mm512_storeu_si512(out, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second.raw, first.raw)));
#else
  const hn::RebindToSigned<D32> di;
  const hn::Rebind<uint16_t, D32> du16;
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, bf16_bits(df, first))), du16, out);
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di, bf16_bits(df, second))), du16, out + hn::Lanes(df));
#endif
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#endif  // per-target guard
