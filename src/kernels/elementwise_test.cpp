// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <cmath>
#include <limits>

#include "kernels/exp.h"
#include "kernels/row_kernels.h"
#include "kernels/scalar.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

constexpr int kSizes = 2 * 16 + 1;  // two vectors of the widest rung, and one more

TEST(ExpTest, RelativeErrorIsWithinTheNamedBounds) {
  for (double x = -87.0; x <= 88.0; x += 0.00317) {
    const float xf = static_cast<float>(x);
    EXPECT_NEAR(exp_scalar(xf) / std::exp(static_cast<double>(xf)), 1.0, 3e-7) << x;
  }
  for (double x = -126.0; x <= 0.0; x += 0.00317) {
    const float xf = static_cast<float>(x);
    EXPECT_NEAR(exp2_scalar(xf) / std::exp2(static_cast<double>(xf)), 1.0, 2.5e-7) << x;
  }
}

TEST(ExpTest, EndsAreExact) {
  EXPECT_EQ(exp2_scalar(0.0f), 1.0f);
  EXPECT_EQ(exp2_scalar(-0.0f), 1.0f);
  EXPECT_EQ(exp2_scalar(-5.0f), 0x1p-5f);
  for (float x : {-127.0f, -127.4f, -1e30f, -INFINITY}) EXPECT_EQ(exp2_scalar(x), 0.0f) << x;
  EXPECT_EQ(exp_scalar(0.0f), 1.0f);
  for (float x : {-88.1f, -1e30f, -INFINITY}) EXPECT_EQ(exp_scalar(x), 0.0f) << x;
  for (float x : {88.1f, 1e30f, INFINITY}) EXPECT_TRUE(std::isfinite(exp_scalar(x))) << x;
}

class ElementwiseTest : public RungTest {};
INSTANTIATE_FOR_RUNGS(ElementwiseTest);

TEST_P(ElementwiseTest, RmsNormEqualsItsTwin) {
  for (int width = 1; width <= kSizes; ++width) {
    for (int offset : {0, 1, 3}) {
      const std::vector<float> x = random_floats(3 * width + offset, width);
      const std::vector<float> w = random_floats(width + offset, width + 1000);
      std::vector<float> want(3 * width), got(3 * width);
      std::vector<bf16> want16(3 * width), got16(3 * width);
      scalar::rms_norm(x.data() + offset, w.data() + offset, 1e-5f, 3, width, want.data());
      scalar::rms_norm(x.data() + offset, w.data() + offset, 1e-5f, 3, width, want16.data());
      rms_norm(x.data() + offset, w.data() + offset, 1e-5f, 3, width, got.data());
      rms_norm(x.data() + offset, w.data() + offset, 1e-5f, 3, width, got16.data());
      EXPECT_TRUE(same_bits(got, want)) << width;
      EXPECT_TRUE(same_bits(got16, want16)) << width;
    }
  }
}

TEST_P(ElementwiseTest, RmsNormIsTheFormula) {
  const int width = 576;
  const std::vector<float> x = random_floats(width, 1);
  const std::vector<float> w = random_floats(width, 2);
  std::vector<float> y(width);
  rms_norm(x.data(), w.data(), 1e-5f, 1, width, y.data());
  double sum = 0;
  for (float v : x) sum += static_cast<double>(v) * v;
  for (int i = 0; i < width; ++i) {
    const double want = x[i] / std::sqrt(sum / width + 1e-5) * w[i];
    EXPECT_NEAR(y[i], want, 5e-7 * std::abs(want) + 1e-9);
  }
}

TEST_P(ElementwiseTest, RopeEqualsItsTwin) {
  for (RopePairs pairs : {RopePairs::kHalfSplit, RopePairs::kInterleaved}) {
    for (int half = 0; half <= kSizes; ++half) {
      const int n = 3, heads = 2, rotary = 2 * half, dim = rotary + 2;
      std::vector<float> want = random_floats(n * heads * dim, half + 1);
      std::vector<float> got = want;
      const std::vector<float> cos = random_floats(n * half, 7), sin = random_floats(n * half, 8);
      const RopeShape shape{heads, dim, rotary, pairs};
      scalar::rope(want.data(), n, shape, cos.data(), sin.data());
      rope(got.data(), n, shape, cos.data(), sin.data());
      EXPECT_TRUE(same_bits(got, want)) << half;
    }
  }
}

TEST_P(ElementwiseTest, RopeRotatesThePairsItNames) {
  const float cos[2] = {0, 1}, sin[2] = {1, 0};  // a quarter turn, then none
  float split[5] = {1, 2, 3, 4, 5};
  rope(split, 1, {1, 5, 4, RopePairs::kHalfSplit}, cos, sin);
  const float want_split[5] = {-3, 2, 1, 4, 5};
  float inter[5] = {1, 2, 3, 4, 5};
  rope(inter, 1, {1, 5, 4, RopePairs::kInterleaved}, cos, sin);
  const float want_inter[5] = {-2, 1, 3, 4, 5};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(split[i], want_split[i]);
    EXPECT_EQ(inter[i], want_inter[i]);
  }
}

TEST_P(ElementwiseTest, SiluMulEqualsItsTwinAndTheFormula) {
  for (int width = 1; width <= kSizes; ++width) {
    std::vector<float> x = random_floats(2 * 2 * width, width, 4.0f);
    x[0] = -200.0f;  // exp overflows f32 here: the result must still be about 0
    std::vector<float> want(2 * width), got(2 * width);
    std::vector<bf16> want16(2 * width), got16(2 * width);
    scalar::silu_mul(x.data(), 2, width, want.data());
    scalar::silu_mul(x.data(), 2, width, want16.data());
    silu_mul(x.data(), 2, width, got.data());
    silu_mul(x.data(), 2, width, got16.data());
    EXPECT_TRUE(same_bits(got, want)) << width;
    EXPECT_TRUE(same_bits(got16, want16)) << width;
    for (int i = 0; i < width; ++i) {
      const double g = x[i], up = x[width + i];
      EXPECT_NEAR(got[i], g / (1 + std::exp(-g)) * up, 1e-6 * std::abs(g * up) + 1e-30);
    }
  }
}

TEST_P(ElementwiseTest, AddBiasEqualsItsTwin) {
  for (int width = 0; width <= kSizes; ++width) {
    std::vector<float> want = random_floats(3 * width, width);
    std::vector<float> got = want;
    const std::vector<float> bias = random_floats(width, 5);
    scalar::add_bias(want.data(), bias.data(), 3, width);
    add_bias(got.data(), bias.data(), 3, width);
    EXPECT_TRUE(same_bits(got, want)) << width;
  }
}

TEST_P(ElementwiseTest, RoundingEqualsItsTwinOnEveryKindOfValue) {
  std::vector<float> x = random_floats(200, 3);
  const float special[] = {0.0f,        -0.0f,      INFINITY, -INFINITY, NAN,
                           -NAN,        1e-45f,     -1e-40f,  3.4e38f,   std::numeric_limits<float>::max(),
                           1.00390625f, 1.01171875f};
  x.insert(x.begin() + 5, std::begin(special), std::end(special));
  for (int count = 0; count <= kSizes; ++count) {
    for (int offset : {0, 1, 2, 7}) {
      std::vector<bf16> want(count), got(count);
      scalar::round_to_bf16(x.data() + offset, count, want.data());
      round_to_bf16(x.data() + offset, count, got.data());
      EXPECT_TRUE(same_bits(got, want)) << count;
    }
  }
}

TEST_P(ElementwiseTest, WideningKeepsEveryValue) {
  std::vector<bf16> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{17}, all.size() - 1}) {
    for (const size_t offset : {size_t{0}, size_t{1}}) {
      std::vector<float> want(count), got(count);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t bits = static_cast<uint32_t>(all[i + offset].bits) << 16;
        std::memcpy(&want[i], &bits, sizeof(bits));
      }
      rows::widen(all.data() + offset, static_cast<int64_t>(count), got.data());
      EXPECT_TRUE(same_bits(got, want)) << count;
    }
  }
}

TEST_P(ElementwiseTest, SumsOfExpEqualTheirTwin) {
  const std::vector<float> x = random_floats(300, 12, 20.0f);
  for (int count = 0; count <= 100; ++count) {
    std::vector<float> want(16, 0.5f), got(16, 0.5f);
    scalar::add_exp(x.data() + count % 3, count, 7.0f, want.data());
    rows::add_exp(x.data() + count % 3, count, 7.0f, got.data());
    EXPECT_TRUE(same_bits(got, want)) << count;
  }
}

TEST_P(ElementwiseTest, ARowsBitsDependOnNeitherNeighboursNorThreads) {
  const int n = 300, width = 129;
  const std::vector<float> x = random_floats(n * 2 * width, 9);
  const std::vector<float> w = random_floats(2 * width, 10);
  std::vector<bf16> norm_all(n * 2 * width), norm_one(n * 2 * width), silu_all(n * width),
      silu_one(n * width);
  {
    WithThreads two(2);
    rms_norm(x.data(), w.data(), 1e-6f, n, 2 * width, norm_all.data());
    silu_mul(x.data(), n, width, silu_all.data());
  }
  WithThreads one(1);
  for (int r = 0; r < n; ++r) {
    rms_norm(x.data() + r * 2 * width, w.data(), 1e-6f, 1, 2 * width, norm_one.data() + r * 2 * width);
    silu_mul(x.data() + r * 2 * width, 1, width, silu_one.data() + r * width);
  }
  EXPECT_TRUE(same_bits(norm_all, norm_one));
  EXPECT_TRUE(same_bits(silu_all, silu_one));
}

TEST(RungMachineryTest, OnlyAvailableRungsCanBeForced) {
  for (Rung rung : {Rung::kScalar, Rung::kAvx2, Rung::kAvx512, Rung::kAvx512Bf16, Rung::kNeon}) {
    bool available = false;
    for (Rung r : available_rungs()) available = available || r == rung;
    EXPECT_EQ(set_rung(rung), available) << rung_name(rung);
    if (available) {
      EXPECT_EQ(active_rung(), rung);
    }
  }
  EXPECT_TRUE(set_rung(available_rungs().back()));
}

}  // namespace
}  // namespace isthmus::kernels
