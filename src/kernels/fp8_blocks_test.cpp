// SPDX-License-Identifier: Apache-2.0
#include "kernels/fp8_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "kernels/block_format.h"

namespace isthmus::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every finite e4m3 value that is not negative, ascending: codes 0 to 0x7e.
std::vector<float> all_values() {
  std::vector<std::byte> codes;
  for (int i = 0; i <= 0x7e; ++i) codes.push_back(static_cast<std::byte>(i));
  std::vector<float> values(codes.size());
  dequantize_row(DType::kF8E4M3, codes.data(), static_cast<int64_t>(codes.size()), values.data());
  return values;
}

TEST(E4m3, ItsOwnValuesStay) {
  const std::vector<float> values = all_values();
  ASSERT_EQ(values.back(), 448.0F);
  for (const float v : values) {
    EXPECT_EQ(round_to_e4m3(v), v);
    EXPECT_EQ(round_to_e4m3(-v), -v);
  }
}

TEST(E4m3, BetweenTwoTheNearestAndTheEvenOneOfATie) {
  const std::vector<float> values = all_values();
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    const float middle = (values[i] + values[i + 1]) / 2;
    const float even = i % 2 == 0 ? values[i] : values[i + 1];  // codes ascend with the values
    EXPECT_EQ(round_to_e4m3(middle), even) << middle;
    EXPECT_EQ(round_to_e4m3(std::nextafter(middle, 0.0F)), values[i]) << middle;
    EXPECT_EQ(round_to_e4m3(-std::nextafter(middle, kInfinity)), -values[i + 1]) << middle;
  }
}

TEST(E4m3, SaturatesAndKeepsNaN) {
  EXPECT_EQ(round_to_e4m3(449.0F), 448.0F);
  EXPECT_EQ(round_to_e4m3(-1e30F), -448.0F);
  EXPECT_EQ(round_to_e4m3(kInfinity), 448.0F);
  EXPECT_TRUE(std::isnan(round_to_e4m3(kNaN)));
}

TEST(Fp8Blocks, EachBlockHasAScaleOfItsOwn) {
  constexpr int64_t kRows = 130, kColumns = 300;  // blocks of 128 and 2 rows, of 128, 128 and 44 columns
  std::vector<float> in(kRows * kColumns);
  std::mt19937 draw(3);
  const auto size = [](int64_t r, int64_t c) { return r / 128 * 3 + c / 128 + 1; };
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const float unit = static_cast<float>(draw() % 20001) / 10000.0F - 1.0F;
      in[static_cast<size_t>(r * kColumns + c)] = unit * static_cast<float>(std::pow(10.0, size(r, c)));
    }
  }
  std::vector<float> out = in;
  round_to_fp8_blocks(out.data(), kRows, kColumns);
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const size_t i = static_cast<size_t>(r * kColumns + c);
      // Half a unit in the last of 4 significant bits, or of the smallest step near zero.
      const double step =
          std::max(std::fabs(static_cast<double>(in[i])) / 16, std::pow(10.0, size(r, c)) / 448 * 0x1p-10);
      EXPECT_NEAR(out[i], in[i], step * 1.001) << r << "," << c;
    }
  }
  EXPECT_NE(out, in);
  std::vector<float> again = out;
  round_to_fp8_blocks(again.data(), kRows, kColumns);
  EXPECT_EQ(again, out);
}

TEST(Fp8Blocks, ZerosStayAndWhatIsNotFiniteSpoilsItsBlockOnly) {
  std::vector<float> m(2 * 256, 0.0F);
  m[3] = kInfinity;
  m[200] = 7.0F;
  round_to_fp8_blocks(m.data(), 2, 256);
  EXPECT_TRUE(std::isnan(m[0]) && std::isnan(m[3]) && std::isnan(m[256]));
  EXPECT_EQ(m[200], 7.0F);
  EXPECT_EQ(m[255], 0.0F);
}

}  // namespace
}  // namespace isthmus::kernels
