// SPDX-License-Identifier: Apache-2.0
// bf16 and f16 as storage types, with the conversions that everything uses. Round to nearest, ties to even;
// NaN stays NaN. Values; any thread. No arithmetic: kernels convert to float, compute, and convert back.
#pragma once

#include <bit>
#include <cstdint>

namespace isthmus {

struct bf16 {
  uint16_t bits = 0;
  bool operator==(const bf16&) const = default;
};
struct f16 {
  uint16_t bits = 0;
  bool operator==(const f16&) const = default;
};

inline float to_float(bf16 v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16);
}

inline bf16 to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{static_cast<uint16_t>((u >> 16) | 0x40u)};
  return bf16{static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

inline float to_float(f16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  const uint32_t magnitude = v.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  // Subnormal: magnitude * 2^-24 is exact in float.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

inline f16 to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return f16{static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return f16{static_cast<uint16_t>(sign | 0x7c00u)};  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded to even by the adder itself.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return f16{static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u))};
  }
  magnitude += 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u;
  return f16{static_cast<uint16_t>(sign | (magnitude >> 13))};
}

}  // namespace isthmus
