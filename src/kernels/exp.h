// SPDX-License-Identifier: Apache-2.0
// 2^x and e^x for softmax and SiLU: one polynomial, one order of roundings, so that the SIMD form (exp-inl.h)
// gives the same bits. Relative error <= 2.5e-7 (2^x), 3e-7 (e^x) where the result is a normal number (tested
// against std::exp in double); below that the result is 0, above 2^127 it saturates, and NaN gives 0. Pure;
// any thread. Not a general libm exp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace isthmus::kernels {

struct ExpConstants {
  static constexpr float kLowest2 = -127.0f;  // the scale 2^-127 is built as exponent field 0, which is 0
  static constexpr float kHighest2 = 127.0f;
  static constexpr float kLowest = -88.02969f;  // kLowest2 * ln2
  static constexpr float kHighest = 88.02969f;
  static constexpr float kLog2e = 1.44269504f;
  static constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer held in the low bits
  static constexpr float kLn2High = 0.693359375f;
  static constexpr float kLn2Low = -2.12194440e-4f;
  // 2^f = 1 + f * (C1 + f * (C2 + ...)) on |f| <= 1/2: minimax in relative error, 1.1e-7 with these
  // roundings.
  static constexpr float kC1 = 0.693147f;
  static constexpr float kC2 = 0.24022242f;
  static constexpr float kC3 = 0.05550734f;
  static constexpr float kC4 = 0.009671511f;
  static constexpr float kC5 = 0.0013264653f;
};

// 2^n * 2^f; `shifted` = n + kRound.
inline float exp2_of_parts(float shifted, float f) {
  using C = ExpConstants;
  float p = C::kC5;
  p = std::fma(p, f, C::kC4);
  p = std::fma(p, f, C::kC3);
  p = std::fma(p, f, C::kC2);
  p = std::fma(p, f, C::kC1);
  p = std::fma(p, f, 1.0f);
  return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000u);
}

// x <= 127: softmax's are never positive.
inline float exp2_scalar(float x) {
  using C = ExpConstants;
  x = x > C::kLowest2 ? x : C::kLowest2;
  const float shifted = x + C::kRound;
  return exp2_of_parts(shifted, x - (shifted - C::kRound));
}

inline float exp_scalar(float x) {
  using C = ExpConstants;
  x = x > C::kLowest ? x : C::kLowest;
  x = x < C::kHighest ? x : C::kHighest;
  const float shifted = std::fma(x, C::kLog2e, C::kRound);
  const float n = shifted - C::kRound;
  return exp2_of_parts(shifted, ((x - n * C::kLn2High) - n * C::kLn2Low) * C::kLog2e);
}

}  // namespace isthmus::kernels
