// SPDX-License-Identifier: Apache-2.0
#include "kernels/gemm.h"

#include <cmath>

#include "kernels/gemm_panels.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

class GemmTest : public RungTest {};
INSTANTIATE_FOR_RUNGS(GemmTest);

// |error| <= kBound * sum |a b|: f32 sums over K <= 1536 in chunks or blocks.
constexpr double kBound = 2e-6;

template <typename T>
double number(T v) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(v);
  else
    return v;
}

template <typename T>
void expect_product(const std::vector<T>& w, const std::vector<T>& in, int64_t m, int64_t n, int64_t k) {
  Result<PackedMatrix> packed = PackedMatrix::pack(w.data(), n, k);
  ASSERT_TRUE(packed.ok()) << packed.status().to_string();
  std::vector<float> out(m * n, NAN), sum(m * n, 0.5f);
  gemm(*packed, in.data(), m, out.data());
  gemm(*packed, in.data(), m, sum.data(), true);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < n; ++c) {
      double want = 0, size = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double product = number(in[r * k + i]) * number(w[c * k + i]);
        want += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(out[r * n + c], want, kBound * size + 1e-30) << r << "," << c;
      ASSERT_NEAR(sum[r * n + c], want + 0.5, kBound * (size + 0.5)) << r << "," << c;
    }
  }
}

TEST_P(GemmTest, MatchesADoubleProduct) {
  const int64_t shapes[][3] = {{1, 1, 1},    {1, 17, 8},   {3, 16, 64},  {5, 33, 65},
                               {9, 31, 130}, {70, 40, 63}, {2, 64, 1536}};
  for (const auto& [m, n, k] : shapes) {
    const std::vector<float> w = random_floats(n * k, 1), in = random_floats(m * k, 2);
    expect_product(w, in, m, n, k);
    expect_product(to_bf16s(w), to_bf16s(in), m, n, k);
  }
}

// Panels that hold T.
template <typename T>
void expect_twin(const std::vector<T>& w, const std::vector<float>& in, int64_t m, int64_t n, int64_t k) {
  std::vector<T> panels(panel_values(n, k));
  pack_panels(w.data(), n, k, panels.data());
  for (const bool accumulate : {false, true}) {
    std::vector<float> got(m * n, 1.0f), want(m * n, 1.0f);
    const PanelWeights<T> weights{panels.data(), n, k};
    for (int64_t panel = 0; panel < panel_count(n); ++panel) {
      gemm_panel(weights, {in.data(), k, m, accumulate, got.data()}, panel);
      scalar::gemm_panel(weights, {in.data(), k, m, accumulate, want.data()}, panel);
    }
    EXPECT_TRUE(same_bits(got, want)) << m << " " << n << " " << k << " " << accumulate;
  }
}

TEST_P(GemmTest, PanelsEqualTheirTwin) {
  for (int64_t n : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 100}) {
    for (const auto& [m, k] : {std::pair{1, 5}, {7, 64}, {19, 129}, {29, 193}, {41, 600}}) {
      const std::vector<float> w = random_floats(n * k, 3), in = random_floats(m * k, 4);
      expect_twin(w, in, m, n, k);
      std::vector<float> rounded;
      for (const bf16 v : to_bf16s(in)) rounded.push_back(to_float(v));
      expect_twin(to_bf16s(w), rounded, m, n, k);
    }
  }
}

template <typename T>
void expect_invariant(const PackedMatrix& w, const std::vector<T>& in, int64_t max_rows) {
  const int64_t n = w.n(), k = w.k();
  for (bool accumulate : {false, true}) {
    std::vector<float> all(max_rows * n, 0.25f);
    gemm(w, in.data(), max_rows, all.data(), accumulate);
    for (int threads : {1, 2}) {
      WithThreads scope(threads);
      for (int64_t m : {1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 200, 511, 512, 513, 1000}) {
        const int64_t first = max_rows - m;
        if (first < 0) continue;
        std::vector<float> some(m * n, 0.25f);
        gemm(w, in.data() + first * k, m, some.data(), accumulate);
        EXPECT_TRUE(same_bits(some, std::vector<float>(all.begin() + first * n, all.end())))
            << m << " rows of " << n << "x" << k << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(GemmTest, ARowsBitsDependOnNeitherMNorThreads) {
  // SmolLM2's products, and two that are no multiples of anything. The scalar rung is slow: small shapes
  // only.
  std::vector<std::pair<int64_t, int64_t>> shapes = {{100, 72}, {33, 161}};
  if (GetParam() == Rung::kAvx512 || GetParam() == Rung::kAvx512Bf16)
    shapes.insert(shapes.end(), {{576, 576}, {384, 576}, {3072, 576}, {576, 1536}});
  for (const auto& [n, k] : shapes) {
    const int64_t rows = GetParam() == Rung::kAvx512Bf16 ? 2048 : 513;
    const std::vector<float> w = random_floats(n * k, 5, 0.05f), in = random_floats(rows * k, 6);
    Result<PackedMatrix> packed = PackedMatrix::pack(to_bf16s(w).data(), n, k);
    ASSERT_TRUE(packed.ok());
    expect_invariant(*packed, to_bf16s(in), rows);
    EXPECT_TRUE(gemm_rows_invariant(*packed));
    if (n > 100) continue;
    Result<PackedMatrix> packed32 = PackedMatrix::pack(w.data(), n, k);
    ASSERT_TRUE(packed32.ok());
    expect_invariant(*packed32, in, rows);
    EXPECT_TRUE(gemm_rows_invariant(*packed32));
  }
}

TEST_P(GemmTest, StorageOfOneMatrixServesAnother) {
  const int64_t n = 40, k = 72, m = 5;
  const std::vector<float> w = random_floats(n * k, 7), in = random_floats(m * k, 8);
  const PackedMatrix f32 = PackedMatrix::pack(w.data(), n, k).take();
  const PackedMatrix half = PackedMatrix::pack(to_bf16s(w).data(), n, k).take();
  const auto expect_same = [&](const PackedMatrix& packed, const auto& rows) {
    EXPECT_EQ(packed.storage().size() % 64, 0u);
    const PackedMatrix borrowed = PackedMatrix::adopt(packed.dtype(), n, k, packed.storage()).take();
    EXPECT_EQ(borrowed.storage().data(), packed.storage().data());
    std::vector<float> want(m * n), got(m * n);
    gemm(packed, rows.data(), m, want.data());
    gemm(borrowed, rows.data(), m, got.data());
    EXPECT_TRUE(same_bits(got, want));
    const auto short_one = packed.storage().first(packed.storage().size() - 64);
    EXPECT_EQ(PackedMatrix::adopt(packed.dtype(), n, k, short_one).status().code(), Code::kMismatch);
  };
  expect_same(f32, in);
  expect_same(half, to_bf16s(in));
  EXPECT_NE(PackedMatrix::layout(DType::kF32, n, k), PackedMatrix::layout(DType::kBF16, n, k));
}

TEST(GemmPackTest, RefusesEmptyMatrices) {
  const float w[1] = {1};
  EXPECT_EQ(PackedMatrix::pack(w, 0, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(PackedMatrix::pack(w, 1, 0).status().code(), Code::kInvalidArgument);
  const bf16 w16[1] = {};
  EXPECT_EQ(PackedMatrix::pack(w16, 0, 1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace isthmus::kernels
