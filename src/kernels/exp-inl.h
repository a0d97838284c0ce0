// SPDX-License-Identifier: Apache-2.0
// exp.h for SIMD lanes: the same operations in the same order, hence the same bits as exp_scalar (NaN aside).
// Included once per target.
#include "kernels/dot-inl.h"

#if defined(ISTHMUS_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISTHMUS_KERNELS_EXP_INL_H_
#undef ISTHMUS_KERNELS_EXP_INL_H_
#else
#define ISTHMUS_KERNELS_EXP_INL_H_
#endif

#include "kernels/exp.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_of_parts_lanes(D d, V shifted, V f) {
  using C = ExpConstants;
  const hn::RebindToUnsigned<D> du;
  V p = hn::Set(d, C::kC5);
  p = hn::MulAdd(p, f, hn::Set(d, C::kC4));
  p = hn::MulAdd(p, f, hn::Set(d, C::kC3));
  p = hn::MulAdd(p, f, hn::Set(d, C::kC2));
  p = hn::MulAdd(p, f, hn::Set(d, C::kC1));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto scale = hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::Set(du, 0x3f800000u));
  return hn::Mul(p, hn::BitCast(d, scale));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_lanes(D d, V x) {
  x = hn::Max(x, hn::Set(d, ExpConstants::kLowest2));
  const V round = hn::Set(d, ExpConstants::kRound);
  const V shifted = hn::Add(x, round);
  return exp2_of_parts_lanes(d, shifted, hn::Sub(x, hn::Sub(shifted, round)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_lanes(D d, V x) {
  using C = ExpConstants;
  x = hn::Min(hn::Max(x, hn::Set(d, C::kLowest)), hn::Set(d, C::kHighest));
  const V round = hn::Set(d, C::kRound);
  const V shifted = hn::MulAdd(x, hn::Set(d, C::kLog2e), round);
  const V n = hn::Sub(shifted, round);
  const V r = hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(d, C::kLn2High))), hn::Mul(n, hn::Set(d, C::kLn2Low)));
  return exp2_of_parts_lanes(d, shifted, hn::Mul(r, hn::Set(d, C::kLog2e)));
}

}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#endif  // per-target guard
