// SPDX-License-Identifier: Apache-2.0
// SIMD form of quantize_activations (step_scalar.cpp), bit for bit.
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <bit>
#include <limits>

#include "kernels/simd.h"
#include "kernels/step_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/step_quantize_simd.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if ISTHMUS_SCALAR_PASS

void quantize_row(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out) {
  scalar::quantize_activations(x, k, geometry, out);
}

#else

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
constexpr int kWidth = static_cast<int>(hn::MaxLanes(DF()));

void quantize_row(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out) {
  const bool halves = geometry.scale == StepScale::kSuperHalf;
  const hn::Rebind<int8_t, DI> d8;
  for (int64_t i = 0; i < k / kStepBlock; ++i, x += kStepBlock, ++out) {
    auto top = hn::Zero(DI());
    HWY_UNROLL(8)
    for (int e = 0; e < kStepBlock; e += kWidth) {
      const VI bits = hn::BitCast(DI(), hn::LoadU(DF(), x + e));
      top = hn::Max(top, hn::And(bits, hn::Set(DI(), 0x7fffffff)));
    }
    const auto top_bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(DI(), top)));
    const float largest = std::bit_cast<float>(top_bits);
    if (top_bits >= 0x7f800000u || largest < kStepSmallest) {
      *out = StepActivation{};
      if (top_bits >= 0x7f800000u) out->d = out->sum = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    const VF inverse = hn::Set(DF(), 127.0f / largest);
    VI sums[2] = {hn::Zero(DI()), hn::Zero(DI())};
    HWY_UNROLL(8)
    for (int e = 0; e < kStepBlock; e += kWidth) {
      const VI q = hn::NearestInt(hn::Mul(hn::LoadU(DF(), x + e), inverse));
      hn::StoreU(hn::DemoteTo(d8, q), d8, out->q + e);
      sums[e / 16] = hn::Add(sums[e / 16], q);
    }
    const int first = hn::GetLane(hn::SumOfLanes(DI(), sums[0]));
    const int second = hn::GetLane(hn::SumOfLanes(DI(), sums[1]));
    out->d = largest / 127.0f;
    out->sum = out->d * static_cast<float>(first + second);
    out->init[0] = -geometry.offset * (halves ? first : first + second);
    out->init[1] = halves ? -geometry.offset * second : 0;
  }
}

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {

HWY_EXPORT(quantize_row);

namespace step {

void quantize_activations(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out) {
  ISTHMUS_DISPATCH(quantize_row)(x, k, geometry, out);
}

}  // namespace step
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
