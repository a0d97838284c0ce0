// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm_int8.h"

#include <cmath>
#include <limits>

#include "kernels/gemm.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

class GemmInt8Test : public RungTest {};
INSTANTIATE_FOR_RUNGS(GemmInt8Test);

struct Quantized {
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> sum;

  Quantized(int64_t rows, int64_t k) : q(rows * ((k + 3) / 4 * 4), 0), scale(rows), sum(rows) {}
  Int8Rows rows() const { return {q.data(), scale.data(), sum.data(), std::ssize(scale)}; }
  bool operator==(const Quantized& o) const { return q == o.q && same_bits(scale, o.scale) && sum == o.sum; }
};

TEST_P(GemmInt8Test, QuantizationEqualsItsTwin) {
  for (const int64_t k : {1, 3, 4, 15, 16, 17, 64, 65, 576, 1536}) {
    std::vector<bf16> in = to_bf16s(random_floats(7 * k, 1, 3.0f));
    in[2 * k] = to_bf16(std::numeric_limits<float>::infinity());
    in[3 * k + k - 1] = to_bf16(NAN);
    for (int64_t i = 0; i < k; ++i) in[4 * k + i] = to_bf16(0.0f);
    for (int64_t i = 0; i < k; ++i) in[5 * k + i] = to_bf16(1e-38f);
    Quantized got(7, k), want(7, k);
    quantize_int8(in.data(), 7, k, got.q.data(), got.scale.data(), got.sum.data());
    scalar::quantize_int8(in.data(), 7, k, want.q.data(), want.scale.data(), want.sum.data());
    EXPECT_TRUE(got == want) << k;
    for (const int bad : {2, 3}) EXPECT_TRUE(std::isnan(got.scale[bad])) << k;
    for (const int none : {4, 5}) EXPECT_EQ(got.scale[none], 0.0f) << k;
    for (int64_t i = 0; i < k; ++i) {  // the first row: x ~ scale * q, nearest
      const float x = to_float(in[i]), step = got.scale[0];
      EXPECT_LE(std::abs(x - step * static_cast<float>(got.q[i])), 0.5001f * step) << k << " " << i;
    }
  }
}

TEST_P(GemmInt8Test, ProductsEqualTheirTwin) {
  for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 130}) {
    for (const auto& [m, k] : {std::pair<int64_t, int64_t>{1, 5}, {7, 64}, {13, 130}}) {
      std::vector<float> w = random_floats(n * k, 2);
      w[0] = n == 1 ? w[0] : 0.0f;
      std::vector<std::byte> panels(Int8Weights{nullptr, n, k}.bytes());
      pack_int8(w.data(), n, k, panels.data());
      const Int8Weights packed{panels.data(), n, k};
      Quantized in(m, k);
      scalar::quantize_int8(to_bf16s(random_floats(m * k, 3)).data(), m, k, in.q.data(), in.scale.data(),
                            in.sum.data());
      for (const bool accumulate : {false, true}) {
        std::vector<float> got(m * n, 0.5f), want(m * n, 0.5f);
        for (int64_t p = 0; p < packed.panel_count(); ++p) {
          gemm_int8({packed, in.rows(), accumulate, got.data()}, p);
          scalar::gemm_int8({packed, in.rows(), accumulate, want.data()}, p);
        }
        EXPECT_TRUE(same_bits(got, want)) << m << " " << n << " " << k;
      }
    }
  }
}

// Extremes of both signs, which products of bytes in 16 bits would not survive.
TEST_P(GemmInt8Test, SumsDoNotSaturate) {
  const int64_t n = 64, k = 4096;
  std::vector<float> w(n * k), in(2 * k);
  for (int64_t i = 0; i < n * k; ++i) w[i] = i / k % 2 == 0 ? 1.0f : -1.0f;
  for (int64_t i = 0; i < 2 * k; ++i) in[i] = i < k ? 1.0f : -1.0f;
  const PackedMatrix packed = PackedMatrix::pack_int8(w.data(), n, k).take();
  std::vector<float> out(2 * n);
  gemm(packed, to_bf16s(in).data(), 2, out.data());
  for (int64_t c = 0; c < n; ++c) {
    const float want = c % 2 == 0 ? 4096.0f : -4096.0f;
    EXPECT_NEAR(out[c], want, 1e-2f);
    EXPECT_NEAR(out[n + c], -want, 1e-2f);
  }
}

TEST_P(GemmInt8Test, IsNearTheExactProduct) {
  const int64_t m = 9, n = 100, k = 576;
  const std::vector<float> w = random_floats(n * k, 4, 0.05f), in = random_floats(m * k, 5);
  const std::vector<bf16> rounded = to_bf16s(in);
  const PackedMatrix packed = PackedMatrix::pack_int8(w.data(), n, k).take();
  std::vector<float> out(m * n);
  gemm(packed, rounded.data(), m, out.data());
  double error = 0, size = 0;
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double want = 0;
      for (int64_t i = 0; i < k; ++i) want += double{to_float(rounded[r * k + i])} * w[c * k + i];
      error += (out[r * n + c] - want) * (out[r * n + c] - want);
      size += want * want;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.015);  // two roundings to one part in 254 of the largest
  EXPECT_GT(std::sqrt(error / size), 0.001);  // it is int8 that runs
}

TEST_P(GemmInt8Test, ARowsBitsDependOnNeitherMNorThreads) {
  // More rows than a thread rounds at a time; few columns where there is no quick way.
  const bool quick = GetParam() != Rung::kScalar && GetParam() != Rung::kNeon;
  const int64_t rows = 240, n = quick ? 200 : 20, k = 580;
  const PackedMatrix w = PackedMatrix::pack_int8(random_floats(n * k, 6).data(), n, k).take();
  const std::vector<bf16> in = to_bf16s(random_floats(rows * k, 7));
  std::vector<float> all(rows * n);
  gemm(w, in.data(), rows, all.data());
  for (const int threads : {1, 2}) {
    WithThreads scope(threads);
    for (const int64_t m : {1, 7, 129, 239}) {
      std::vector<float> some(m * n);
      gemm(w, in.data() + (rows - m) * k, m, some.data());
      EXPECT_TRUE(same_bits(some, std::vector<float>(all.end() - m * n, all.end()))) << m;
    }
  }
  EXPECT_TRUE(gemm_rows_invariant(w));
}

TEST_P(GemmInt8Test, NonFiniteValuesShow) {
  const int64_t n = 70, k = 20;
  std::vector<float> w = random_floats(n * k, 8);
  w[3 * k + 1] = NAN;
  const PackedMatrix packed = PackedMatrix::pack_int8(w.data(), n, k).take();
  std::vector<float> in = random_floats(2 * k, 9);
  in[k + 7] = std::numeric_limits<float>::infinity();
  std::vector<float> out(2 * n);
  gemm(packed, to_bf16s(in).data(), 2, out.data());
  for (int64_t c = 0; c < n; ++c) {
    EXPECT_EQ(std::isnan(out[c]), c == 3) << c;
    EXPECT_TRUE(std::isnan(out[n + c])) << c;
  }
}

TEST_P(GemmInt8Test, StorageOfOneMatrixServesAnother) {
  const int64_t n = 70, k = 21, m = 4;
  const PackedMatrix packed = PackedMatrix::pack_int8(random_floats(n * k, 10).data(), n, k).take();
  const PackedMatrix borrowed = PackedMatrix::adopt(DType::kI8, n, k, packed.storage()).take();
  const std::vector<bf16> in = to_bf16s(random_floats(m * k, 11));
  std::vector<float> want(m * n), got(m * n);
  gemm(packed, in.data(), m, want.data());
  gemm(borrowed, in.data(), m, got.data());
  EXPECT_TRUE(same_bits(got, want));
  EXPECT_EQ(packed.storage().size() % 64, 0u);
  EXPECT_EQ(PackedMatrix::adopt(DType::kI8, n, k, packed.storage().first(64)).status().code(),
            Code::kMismatch);
}

TEST(GemmInt8PackTest, RefusesWhatItCannotMultiply) {
  const std::vector<float> w(kInt8MaxK + 1);
  EXPECT_EQ(PackedMatrix::pack_int8(w.data(), 1, kInt8MaxK + 1).status().code(), Code::kUnsupported);
  EXPECT_EQ(PackedMatrix::pack_int8(w.data(), 0, 1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace isthmus::kernels
