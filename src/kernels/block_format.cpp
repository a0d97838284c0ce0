// SPDX-License-Identifier: Apache-2.0
// Expanding block types to f32. Multi-byte fields are little endian and unaligned; `d` and `m` are f16
// scales. The order of the operations is the order of the format's reference, so results are equal to it bit
// for bit.
#include "kernels/block_format.h"

#include <bit>
#include <cstring>

#include "base/float16.h"

namespace isthmus::kernels {
namespace {

template <typename T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

float load_f16(const std::byte* p) {
  return to_float(f16{load<uint16_t>(p)});
}
uint32_t low_nibble(std::byte b) {
  return static_cast<uint32_t>(b) & 15u;
}
uint32_t high_nibble(std::byte b) {
  return static_cast<uint32_t>(b) >> 4;
}

// Types of 32 values keep value i in the low nibble of byte i and value i + 16 in its high nibble.
constexpr int kSmallBlock = 32;

// d, 16 bytes of nibbles: d * (q - 8)
void expand_q4_0(const std::byte* in, float* out) {
  const float d = load_f16(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(static_cast<int>(low_nibble(in[2 + i])) - 8);
    out[i + 16] = d * static_cast<float>(static_cast<int>(high_nibble(in[2 + i])) - 8);
  }
}

// d, m, 16 bytes of nibbles: d * q + m
void expand_q4_1(const std::byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * static_cast<float>(low_nibble(in[4 + i])) + m;
    out[i + 16] = d * static_cast<float>(high_nibble(in[4 + i])) + m;
  }
}

// d, 32 fifth bits (bit i of value i), 16 bytes of nibbles: d * (q - 16)
void expand_q5_0(const std::byte* in, float* out) {
  const float d = load_f16(in);
  const uint32_t fifth = load<uint32_t>(in + 2);
  for (int i = 0; i < 16; ++i) {
    const uint32_t low = low_nibble(in[6 + i]) | ((fifth >> i & 1u) << 4);
    const uint32_t high = high_nibble(in[6 + i]) | ((fifth >> (i + 16) & 1u) << 4);
    out[i] = d * static_cast<float>(static_cast<int>(low) - 16);
    out[i + 16] = d * static_cast<float>(static_cast<int>(high) - 16);
  }
}

// d, m, 32 fifth bits, 16 bytes of nibbles: d * q + m
void expand_q5_1(const std::byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  const uint32_t fifth = load<uint32_t>(in + 4);
  for (int i = 0; i < 16; ++i) {
    const uint32_t low = low_nibble(in[8 + i]) | ((fifth >> i & 1u) << 4);
    const uint32_t high = high_nibble(in[8 + i]) | ((fifth >> (i + 16) & 1u) << 4);
    out[i] = d * static_cast<float>(low) + m;
    out[i + 16] = d * static_cast<float>(high) + m;
  }
}

// d, 32 int8: d * q
void expand_q8_0(const std::byte* in, float* out) {
  const float d = load_f16(in);
  for (int i = 0; i < kSmallBlock; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(in[2 + i]));
}

// Six-bit scale and minimum of group j (0..7) in the 12 bytes that Q4_K and Q5_K share. Groups 0..3 use the
// low six bits of bytes j and j + 4; groups 4..7 use the nibbles of byte j + 4, with the two high bits in the
// tops of bytes j - 4 and j.
struct ScaleMin {
  float scale;
  float min;
};
ScaleMin six_bit_pair(const std::byte* p, int j) {
  const auto at = [p](int i) { return static_cast<uint32_t>(p[i]); };
  if (j < 4) return {static_cast<float>(at(j) & 63u), static_cast<float>(at(j + 4) & 63u)};
  return {static_cast<float>((at(j + 4) & 15u) | (at(j - 4) >> 6 << 4)),
          static_cast<float>((at(j + 4) >> 4) | (at(j) >> 6 << 4))};
}

// d, m, 12 bytes of pairs, 128 bytes of nibbles; groups 2g and 2g + 1 are the low and high nibbles of bytes
// [32g, 32g + 32): d * scale * q - m * min
void expand_q4_k(const std::byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  const std::byte* nibbles = in + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = six_bit_pair(in + 4, group);
    const float scale = d * pair.scale;
    const float min = m * pair.min;
    for (int i = 0; i < 32; ++i) {
      const std::byte b = nibbles[group / 2 * 32 + i];
      const uint32_t q = group % 2 == 0 ? low_nibble(b) : high_nibble(b);
      *out++ = scale * static_cast<float>(q) - min;
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits before the nibbles: value i of group j has bit j of byte i.
void expand_q5_k(const std::byte* in, float* out) {
  const float d = load_f16(in);
  const float m = load_f16(in + 2);
  const std::byte* fifth = in + 16;
  const std::byte* nibbles = in + 48;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = six_bit_pair(in + 4, group);
    const float scale = d * pair.scale;
    const float min = m * pair.min;
    for (int i = 0; i < 32; ++i) {
      const std::byte b = nibbles[group / 2 * 32 + i];
      const uint32_t low = group % 2 == 0 ? low_nibble(b) : high_nibble(b);
      const uint32_t q = low | ((static_cast<uint32_t>(fifth[i]) >> group & 1u) << 4);
      *out++ = scale * static_cast<float>(q) - min;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 int8 scales (one per 16 values), d: d * scale * (q
// - 32). Each half (128 values) has four groups of 32: nibble bytes [0, 32) low, [32, 64) low, [0, 32) high,
// [32, 64) high, and bit pair `group` of byte i.
void expand_q6_k(const std::byte* in, float* out) {
  const float d = load_f16(in + 208);
  for (int half = 0; half < 2; ++half) {
    const std::byte* low = in + half * 64;
    const std::byte* high = in + 128 + half * 32;
    const std::byte* scales = in + 192 + half * 8;
    for (int group = 0; group < 4; ++group) {
      for (int i = 0; i < 32; ++i) {
        const std::byte b = low[group % 2 * 32 + i];
        const uint32_t nibble = group < 2 ? low_nibble(b) : high_nibble(b);
        const uint32_t q = nibble | ((static_cast<uint32_t>(high[i]) >> (2 * group) & 3u) << 4);
        const float scale = d * static_cast<float>(static_cast<int8_t>(scales[group * 2 + i / 16]));
        *out++ = scale * static_cast<float>(static_cast<int>(q) - 32);
      }
    }
  }
}

// One E8M0 byte e, 16 bytes of E2M1 nibbles: 2^(e - 127) * value. The table holds doubled values, the scale
// is halved. e = 255, NaN in the OCP text, is 2^128 here as in the format's reference.
void expand_mxfp4(const std::byte* in, float* out) {
  static constexpr int8_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  const uint32_t e = static_cast<uint32_t>(in[0]);
  const float half = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  for (int i = 0; i < 16; ++i) {
    out[i] = half * static_cast<float>(kDoubled[low_nibble(in[1 + i])]);
    out[i + 16] = half * static_cast<float>(kDoubled[high_nibble(in[1 + i])]);
  }
}

// Sign, four exponent bits (bias 7), three mantissa bits; no infinity, all ones is NaN.
void expand_f8_e4m3(const std::byte* in, float* out) {
  const uint32_t v = static_cast<uint32_t>(*in);
  const uint32_t sign = (v & 0x80u) << 24;
  const uint32_t magnitude = v & 0x7fu;
  uint32_t bits = 0x7fc00000u;
  if (magnitude < 8) {
    bits = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
  } else if (magnitude < 0x7fu) {
    bits = (magnitude << 20) + 0x3c000000u;
  }
  *out = std::bit_cast<float>(sign | bits);
}

void expand_f32(const std::byte* in, float* out) {
  std::memcpy(out, in, sizeof *out);
}
void expand_f16(const std::byte* in, float* out) {
  *out = load_f16(in);
}
void expand_bf16(const std::byte* in, float* out) {
  *out = to_float(bf16{load<uint16_t>(in)});
}

template <void (*kExpandBlock)(const std::byte*, float*), DType kType>
void expand_row(const std::byte* blocks, int64_t n, float* out) {
  const DTypeInfo& info = dtype_info(kType);
  for (int64_t i = 0; i < n; i += info.block_elements, blocks += info.block_bytes)
    kExpandBlock(blocks, out + i);
}

using ExpandRow = void (*)(const std::byte*, int64_t, float*);
struct Expander {
  DType dtype;
  ExpandRow row;
};
constexpr Expander kExpanders[] = {
    {DType::kF32, expand_row<expand_f32, DType::kF32>},
    {DType::kF16, expand_row<expand_f16, DType::kF16>},
    {DType::kBF16, expand_row<expand_bf16, DType::kBF16>},
    {DType::kF8E4M3, expand_row<expand_f8_e4m3, DType::kF8E4M3>},
    {DType::kQ4_0, expand_row<expand_q4_0, DType::kQ4_0>},
    {DType::kQ4_1, expand_row<expand_q4_1, DType::kQ4_1>},
    {DType::kQ5_0, expand_row<expand_q5_0, DType::kQ5_0>},
    {DType::kQ5_1, expand_row<expand_q5_1, DType::kQ5_1>},
    {DType::kQ8_0, expand_row<expand_q8_0, DType::kQ8_0>},
    {DType::kQ4_K, expand_row<expand_q4_k, DType::kQ4_K>},
    {DType::kQ5_K, expand_row<expand_q5_k, DType::kQ5_K>},
    {DType::kQ6_K, expand_row<expand_q6_k, DType::kQ6_K>},
    {DType::kMxfp4, expand_row<expand_mxfp4, DType::kMxfp4>},
};

}  // namespace

void dequantize_row(DType dtype, const std::byte* blocks, int64_t n, float* out) {
  ISTHMUS_CHECK(n >= 0 && n % dtype_info(dtype).block_elements == 0);
  for (const Expander& expander : kExpanders) {
    if (expander.dtype == dtype) return expander.row(blocks, n, out);
  }
  ISTHMUS_CHECK(!"dequantize_row: not a floating point type");
}

}  // namespace isthmus::kernels
