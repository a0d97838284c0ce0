// SPDX-License-Identifier: Apache-2.0
// exp for softmax and SiLU: one polynomial, one order of roundings, so that the SIMD form (exp-inl.h) gives the same bits.
// Relative error <= 2.5e-7 on [-87, 88] (tested against std::exp in double). Pure; any thread. Not a general libm exp: below -87.3
// the result is 0, above 88 it is exp(88), and NaN gives an unspecified finite value.
#pragma once

#include <bit>
#include <cstdint>

namespace isthmus::kernels {

struct ExpConstants {
  static constexpr float kLowest = -87.3f;  // exp is still a normal number here
  static constexpr float kHighest = 88.0f;
  static constexpr float kLog2e = 1.44269504f;
  static constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer held in the low bits
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  // exp(r) = 1 + r + r^2 * p(r) on |r| <= ln2 / 2; Taylor coefficients with the last two adjusted for the interval.
  static constexpr float kP0 = 5.0000000e-1f;
  static constexpr float kP1 = 1.6666667e-1f;
  static constexpr float kP2 = 4.1666646e-2f;
  static constexpr float kP3 = 8.3334519e-3f;
  static constexpr float kP4 = 1.3950688e-3f;
  static constexpr float kP5 = 1.9760400e-4f;
};

inline float exp_scalar(float x) {
  using C = ExpConstants;
  const bool zero = x < C::kLowest;
  x = x < C::kLowest ? C::kLowest : x;
  x = x < C::kHighest ? x : C::kHighest;
  const float shifted = x * C::kLog2e + C::kRound;
  const float n = shifted - C::kRound;
  const float r = (x - n * C::kLn2High) - n * C::kLn2Low;
  float p = C::kP5;
  p = p * r + C::kP4;
  p = p * r + C::kP3;
  p = p * r + C::kP2;
  p = p * r + C::kP1;
  p = p * r + C::kP0;
  const float e = (p * (r * r) + r) + 1.0f;
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u;
  return zero ? 0.0f : e * std::bit_cast<float>(scale);
}

}  // namespace isthmus::kernels
