// SPDX-License-Identifier: Apache-2.0
// Making block types from f32. Byte layouts: block_format.cpp. Scales and rounding follow the formats'
// reference, so that a file made here and one made by its tools hold the same bytes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "base/float16.h"
#include "kernels/block_format.h"

namespace isthmus::kernels {
namespace {

constexpr int kBlock = 32;

void store_u16(std::byte* p, uint16_t v) {
  std::memcpy(p, &v, sizeof v);
}

// Zero for a scale whose inverse overflows: it rounds to zero in f16 as well.
float inverse_or_zero(float d) {
  const float inverse = 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

// Written so that NaN (an infinite range times zero; refused later by its scale) becomes 0.
uint32_t four_bits(float v) {
  return v >= 15.0f ? 15u : v > 0.0f ? static_cast<uint32_t>(v) : 0u;
}

// Value i goes to the low nibble of byte i, value i + 16 to the high one.
template <typename Quantize>
void pack_nibbles(const float* in, std::byte* out, Quantize quantize) {
  for (int i = 0; i < 16; ++i) out[i] = static_cast<std::byte>(quantize(in[i]) | (quantize(in[i + 16]) << 4));
}

// The value of the largest magnitude becomes -8 (the first one among equals).
void make_q4_0(const float* in, std::byte* out) {
  float extreme = 0;
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  const float d = extreme / -8.0f;
  const float inverse = inverse_or_zero(d);
  store_u16(out, to_f16(d).bits);
  pack_nibbles(in, out + 2, [inverse](float x) { return four_bits(x * inverse + 8.5f); });
}

void make_q4_1(const float* in, std::byte* out) {
  const auto [low, high] = std::minmax_element(in, in + kBlock);
  const float min = *low;
  const float d = (*high - min) / 15.0f;
  const float inverse = inverse_or_zero(d);
  store_u16(out, to_f16(d).bits);
  store_u16(out + 2, to_f16(min).bits);
  pack_nibbles(in, out + 4, [=](float x) { return four_bits((x - min) * inverse + 0.5f); });
}

float largest_magnitude(const float* in) {
  float largest = 0;
  for (int i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(in[i]));
  return largest;
}

void make_q8_0(const float* in, std::byte* out) {
  const float d = largest_magnitude(in) / 127.0f;
  const float inverse = inverse_or_zero(d);
  store_u16(out, to_f16(d).bits);
  for (int i = 0; i < kBlock; ++i) {
    const float rounded = std::clamp(std::round(in[i] * inverse), -128.0f, 127.0f);  // ties away from zero
    out[2 + i] = static_cast<std::byte>(static_cast<int8_t>(rounded));
  }
}

// E2M1 code nearest to x / scale; a tie takes the smaller magnitude. Zero has no sign.
uint32_t e2m1_code(float scaled) {
  static constexpr float kUpper[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  const float magnitude = std::fabs(scaled);
  uint32_t code = 0;
  while (code < 7 && magnitude > kUpper[code]) ++code;
  return code != 0 && scaled < 0 ? code | 8u : code;
}

// The shared exponent puts the largest magnitude into [4, 8), where E2M1 ends at 6.
void make_mxfp4(const float* in, std::byte* out) {
  const float largest = largest_magnitude(in);
  const int exponent = largest > 0 ? std::max(std::ilogb(largest) - 2 + 127, 0) : 0;
  out[0] = static_cast<std::byte>(exponent);
  pack_nibbles(in, out + 1, [exponent](float x) { return e2m1_code(std::ldexp(x, 127 - exponent)); });
}

// Block scales are f16 (E8M0 in MXFP4): a block that needs more would come back as infinity or NaN.
Status check_range(DType dtype, const float* in, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(in[i])) {
      return {Code::kInvalidArgument, "quantize " + std::string(dtype_info(dtype).name) + ": value " +
                                          std::to_string(i) + " of the row is not finite"};
    }
  }
  return {};
}

Status scale_overflow(DType dtype, int64_t block) {
  return {Code::kInvalidArgument, "quantize " + std::string(dtype_info(dtype).name) + ": block " +
                                      std::to_string(block) + " of the row needs a scale beyond f16"};
}

bool f16_is_finite(const std::byte* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return (bits & 0x7c00u) != 0x7c00u;
}

using MakeBlock = void (*)(const float*, std::byte*);

Status make_blocks(DType dtype, const float* in, int64_t n, std::byte* blocks, MakeBlock make) {
  TRY(check_range(dtype, in, n));
  const size_t step = dtype_info(dtype).block_bytes;
  for (int64_t b = 0; b < n / kBlock; ++b, blocks += step) {
    make(in + b * kBlock, blocks);
    if (dtype == DType::kMxfp4) continue;
    if (!f16_is_finite(blocks) || (dtype == DType::kQ4_1 && !f16_is_finite(blocks + 2)))
      return scale_overflow(dtype, b);
  }
  return {};
}

}  // namespace

Status quantize_row(DType dtype, const float* in, int64_t n, std::byte* blocks) {
  const DTypeInfo& info = dtype_info(dtype);
  if (n < 0 || n % info.block_elements != 0) {
    return {Code::kInvalidArgument, "quantize " + std::string(info.name) + ": rows of a multiple of " +
                                        std::to_string(info.block_elements) + " values, got " +
                                        std::to_string(n)};
  }
  switch (dtype) {
    case DType::kF32:
      if (n > 0) std::memcpy(blocks, in, static_cast<size_t>(n) * sizeof(float));
      return {};
    case DType::kF16:
      for (int64_t i = 0; i < n; ++i) store_u16(blocks + 2 * i, to_f16(in[i]).bits);
      return {};
    case DType::kBF16:
      for (int64_t i = 0; i < n; ++i) store_u16(blocks + 2 * i, to_bf16(in[i]).bits);
      return {};
    case DType::kQ4_0:
      return make_blocks(dtype, in, n, blocks, make_q4_0);
    case DType::kQ4_1:
      return make_blocks(dtype, in, n, blocks, make_q4_1);
    case DType::kQ8_0:
      return make_blocks(dtype, in, n, blocks, make_q8_0);
    case DType::kMxfp4:
      return make_blocks(dtype, in, n, blocks, make_mxfp4);
    default:
      return {Code::kUnsupported, "quantize: no quantizer to " + std::string(info.name) +
                                      " (have f32 f16 bf16 q4_0 q4_1 q8_0 mxfp4)"};
  }
}

}  // namespace isthmus::kernels
