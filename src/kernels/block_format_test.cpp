// SPDX-License-Identifier: Apache-2.0
// Hand-made blocks, one value worked out per layout rule. The comparison with the reference implementation on
// random blocks is in tensor/block_golden_test.cpp.
#include "kernels/block_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/float16.h"

namespace isthmus::kernels {
namespace {

using Block = std::vector<uint8_t>;

// A block of zeros with some bytes set.
struct Byte {
  size_t at;
  uint8_t value;
};
struct ExpandCase {
  const char* what;
  DType dtype;
  std::vector<Byte> bytes;
  int64_t element;
  float expected;
};

// f16: 0x3c00 = 1, 0x4000 = 2, 0xc000 = -2, 0x0001 = 2^-24.
const ExpandCase kExpandCases[] = {
    {"q4_0 low nibble is an early element", DType::kQ4_0, {{0, 0x00}, {1, 0x40}, {2 + 3, 0x0f}}, 3, 14.0f},
    {"q4_0 high nibble is a late element", DType::kQ4_0, {{1, 0x40}, {2 + 3, 0xf0}}, 19, 14.0f},
    {"q4_0 zero nibble is -8", DType::kQ4_0, {{1, 0x40}}, 0, -16.0f},
    {"q4_0 subnormal scale", DType::kQ4_0, {{0, 0x01}}, 0, -0x1p-21f},
    {"q4_1 minimum", DType::kQ4_1, {{1, 0x40}, {3, 0xc0}}, 7, -2.0f},
    {"q4_1 scale and minimum", DType::kQ4_1, {{1, 0x40}, {3, 0xc0}, {4 + 15, 0x50}}, 31, 8.0f},
    {"q5_0 fifth bit of element 0", DType::kQ5_0, {{1, 0x40}, {2, 0x01}, {6, 0x01}}, 0, 2.0f},
    {"q5_0 fifth bit of element 31", DType::kQ5_0, {{1, 0x40}, {5, 0x80}, {6 + 15, 0x10}}, 31, 2.0f},
    {"q5_1 all bits", DType::kQ5_1, {{1, 0x40}, {3, 0x3c}, {6, 0x01}, {8, 0xf0}}, 16, 63.0f},
    {"q8_0 negative", DType::kQ8_0, {{1, 0x40}, {2 + 31, 0x80}}, 31, -256.0f},
    {"q4_k group 0", DType::kQ4_K, {{1, 0x3c}, {4, 63}, {16, 0x03}}, 0, 189.0f},
    {"q4_k group 1 is the high nibble", DType::kQ4_K, {{1, 0x3c}, {5, 2}, {16 + 4, 0x50}}, 36, 10.0f},
    {"q4_k group 4 scale low bits", DType::kQ4_K, {{1, 0x3c}, {4 + 8, 0x07}, {16 + 64, 0x01}}, 128, 7.0f},
    {"q4_k group 4 scale high bits", DType::kQ4_K, {{1, 0x3c}, {4, 0xc0}, {16 + 64, 0x01}}, 128, 48.0f},
    {"q4_k group 7 minimum", DType::kQ4_K, {{3, 0x3c}, {4 + 11, 0x50}, {4 + 7, 0x40}}, 255, -21.0f},
    {"q5_k fifth bit of group 7",
     DType::kQ5_K,
     {{1, 0x3c}, {4 + 11, 0x01}, {16 + 31, 0x80}, {48 + 127, 0x10}},
     255,
     17.0f},
    {"q6_k first element", DType::kQ6_K, {{192, 0x02}, {209, 0x3c}, {0, 0x05}, {128, 0x03}}, 0, 42.0f},
    {"q6_k fourth group, second half",
     DType::kQ6_K,
     {{192 + 8 + 7, 0xff}, {209, 0x3c}, {64 + 63, 0x10}, {128 + 63, 0x80}},
     255,
     -1.0f},
    {"mxfp4 six", DType::kMxfp4, {{0, 127}, {1, 0x07}}, 0, 6.0f},
    {"mxfp4 minus half", DType::kMxfp4, {{0, 127}, {1 + 15, 0x90}}, 31, -0.5f},
    {"mxfp4 smallest scale", DType::kMxfp4, {{0, 0}, {1, 0x02}}, 0, 0x1p-127f},
    {"f8_e4m3 largest", DType::kF8E4M3, {{0, 0x7e}}, 0, 448.0f},
    {"f8_e4m3 smallest", DType::kF8E4M3, {{0, 0x81}}, 0, -0x1p-9f},
    {"f8_e4m3 one", DType::kF8E4M3, {{0, 0x38}}, 0, 1.0f},
    {"bf16", DType::kBF16, {{0, 0x40}, {1, 0xc0}}, 0, -3.0f},
    {"f16", DType::kF16, {{1, 0xc0}}, 0, -2.0f},
    {"f32", DType::kF32, {{3, 0xc0}}, 0, -2.0f},
};

TEST(BlockFormat, ExpandsHandMadeBlocks) {
  for (const ExpandCase& c : kExpandCases) {
    const DTypeInfo& info = dtype_info(c.dtype);
    Block block(info.block_bytes, 0);
    for (const Byte& b : c.bytes) block.at(b.at) = b.value;
    std::vector<float> out(static_cast<size_t>(info.block_elements));
    dequantize_row(c.dtype, reinterpret_cast<const std::byte*>(block.data()), info.block_elements,
                   out.data());
    EXPECT_EQ(out[static_cast<size_t>(c.element)], c.expected) << c.what;
  }
}

TEST(BlockFormat, F8NanIsNan) {
  for (const uint8_t bits : {uint8_t{0x7f}, uint8_t{0xff}}) {
    const std::byte b{bits};
    float out = 0;
    dequantize_row(DType::kF8E4M3, &b, 1, &out);
    EXPECT_TRUE(std::isnan(out));
  }
}

const DType kMakeable[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                           DType::kQ4_1, DType::kQ8_0, DType::kMxfp4};
const DType kNotMakeable[] = {DType::kQ5_0, DType::kQ5_1,   DType::kQ4_K, DType::kQ5_K,
                              DType::kQ6_K, DType::kF8E4M3, DType::kI8};

TEST(BlockFormat, GridValuesSurviveARoundTrip) {
  // Multiples of a power of two that every type can hold: with the extremes present the block scale is exact.
  const float grid[] = {0, 1, -1, 2, -2, 3, -3, 4};
  std::vector<float> in(64);
  for (size_t i = 0; i < in.size(); ++i) in[i] = grid[i % 8] * 0.25f;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kMxfp4}) {
    std::vector<std::byte> blocks(row_bytes(dtype, 64));
    ASSERT_TRUE(quantize_row(dtype, in.data(), 64, blocks.data()).ok());
    std::vector<float> out(64);
    dequantize_row(dtype, blocks.data(), 64, out.data());
    EXPECT_EQ(in, out) << dtype_info(dtype).name;
  }
}

TEST(BlockFormat, ErrorOfARoundTripIsBounded) {
  std::vector<float> in(32);
  for (size_t i = 0; i < in.size(); ++i) in[i] = std::sin(static_cast<float>(i) * 1.7f) * 3.0f;
  struct Bound {
    DType dtype;
    float absolute;
  };
  // The worst step of each type at this range, plus the rounding of its f16 scale.
  for (const Bound& bound :
       {Bound{DType::kQ4_0, 0.40f}, {DType::kQ4_1, 0.21f}, {DType::kQ8_0, 0.013f}, {DType::kMxfp4, 0.51f}}) {
    std::vector<std::byte> blocks(row_bytes(bound.dtype, 32));
    ASSERT_TRUE(quantize_row(bound.dtype, in.data(), 32, blocks.data()).ok());
    std::vector<float> out(32);
    dequantize_row(bound.dtype, blocks.data(), 32, out.data());
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_NEAR(in[i], out[i], bound.absolute) << dtype_info(bound.dtype).name;
  }
}

TEST(BlockFormat, TinyAndZeroBlocksGiveFiniteValues) {
  for (const float v : {0.0f, -0.0f, 1e-45f, -1e-39f, 1e-30f}) {
    const std::vector<float> in(32, v);
    for (const DType dtype : kMakeable) {
      std::vector<std::byte> blocks(row_bytes(dtype, 32));
      ASSERT_TRUE(quantize_row(dtype, in.data(), 32, blocks.data()).ok());
      std::vector<float> out(32, 1.0f);
      dequantize_row(dtype, blocks.data(), 32, out.data());
      for (const float y : out) EXPECT_NEAR(y, v, 1e-30f) << dtype_info(dtype).name << " of " << v;
    }
  }
}

TEST(BlockFormat, QuantizerRefusals) {
  std::vector<float> in(32, 1.0f);
  std::vector<std::byte> blocks(256);
  for (const DType dtype : kNotMakeable) {
    EXPECT_EQ(quantize_row(dtype, in.data(), 0, blocks.data()).code(), Code::kUnsupported)
        << dtype_info(dtype).name;
  }
  EXPECT_EQ(quantize_row(DType::kQ4_0, in.data(), 31, blocks.data()).code(), Code::kInvalidArgument);
  const float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kMxfp4}) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      in[17] = bad;
      const Status status = quantize_row(dtype, in.data(), 32, blocks.data());
      EXPECT_EQ(status.code(), Code::kInvalidArgument) << dtype_info(dtype).name;
      EXPECT_NE(status.message().find("value 17"), std::string::npos) << status.message();
    }
  }
}

TEST(BlockFormat, ScaleBeyondF16IsRefused) {
  std::vector<float> in(32, 0.0f);
  in[0] = std::numeric_limits<float>::max();
  in[1] = -std::numeric_limits<float>::max();
  std::vector<std::byte> blocks(34);
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    EXPECT_EQ(quantize_row(dtype, in.data(), 32, blocks.data()).code(), Code::kInvalidArgument)
        << dtype_info(dtype).name;
  }
  EXPECT_TRUE(quantize_row(DType::kMxfp4, in.data(), 32, blocks.data()).ok());
}

TEST(BlockFormat, Mxfp4TiesTakeTheSmallerMagnitude) {
  // Largest 6 -> scale 1: ties at 0.25, 2.5 and 5.
  std::vector<float> in(32, 0.0f);
  in[0] = 6;
  in[1] = 0.25f;
  in[2] = -2.5f;
  in[3] = 5;
  std::vector<std::byte> blocks(17);
  ASSERT_TRUE(quantize_row(DType::kMxfp4, in.data(), 32, blocks.data()).ok());
  std::vector<float> out(32);
  dequantize_row(DType::kMxfp4, blocks.data(), 32, out.data());
  EXPECT_EQ(out[0], 6);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], -2);
  EXPECT_EQ(out[3], 4);
}

}  // namespace
}  // namespace isthmus::kernels
