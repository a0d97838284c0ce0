// SPDX-License-Identifier: Apache-2.0
#include "kernels/step_linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/block_format.h"
#include "kernels/step_layout.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

constexpr DType kTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                            DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                            DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kMxfp4};

bool is_quantized(DType t) {
  return dtype_info(t).block_elements > 1;
}

void put_half(std::vector<std::byte>& row, size_t at, float value) {
  const f16 h = to_f16(value);
  std::memcpy(row.data() + at, &h.bits, 2);
}

// Offsets of the f16 fields of a block.
std::vector<size_t> half_fields(DType t) {
  switch (t) {
    case DType::kQ4_0:
    case DType::kQ5_0:
    case DType::kQ8_0:
      return {0};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    case DType::kQ6_K:
      return {208};
    default:
      return {};
  }
}

// Every code and scale byte is random (extremes such as -128 included); only what would be huge or non-finite
// is set.
std::vector<std::byte> random_matrix(DType t, int64_t n, int64_t k, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<std::byte> out(static_cast<size_t>(n) * row_bytes(t, k));
  if (!is_quantized(t)) {
    for (size_t i = 0; i < static_cast<size_t>(n * k); ++i) {
      const float f = normal(rng);
      const f16 h = to_f16(f);
      const bf16 b = to_bf16(f);
      if (t == DType::kF32) std::memcpy(out.data() + 4 * i, &f, 4);
      if (t == DType::kF16) std::memcpy(out.data() + 2 * i, &h.bits, 2);
      if (t == DType::kBF16) std::memcpy(out.data() + 2 * i, &b.bits, 2);
    }
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(rng() & 255);
  const size_t block = dtype_info(t).block_bytes;
  for (size_t at = 0; at < out.size(); at += block) {
    for (const size_t field : half_fields(t)) put_half(out, at + field, normal(rng) * 0.01f);
    if (t == DType::kMxfp4) out[at] = static_cast<std::byte>(120 + rng() % 8);
  }
  return out;
}

class StepLinear : public RungTest {};
INSTANTIATE_FOR_RUNGS(StepLinear);

struct Case {
  DType dtype;
  int64_t n, k;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const DType t : kTypes) {
    for (const int64_t k : {32, 64, 576, 1536, 2080, 256, 2048}) {
      if (k % dtype_info(t).block_elements != 0) continue;
      for (const int64_t n : {1, 16, 37}) out.push_back({t, n, k});
    }
    if (!is_quantized(t)) out.push_back({t, 5, 7});
  }
  return out;
}

std::string describe(const Case& c) {
  return std::string(dtype_info(c.dtype).name) + " n " + std::to_string(c.n) + " k " + std::to_string(c.k);
}

// The activations that a quantized product really sees.
std::vector<double> rounded_activations(const Case& c, const float* x) {
  std::vector<double> out(static_cast<size_t>(c.k));
  if (!is_quantized(c.dtype)) {
    std::copy_n(x, c.k, out.begin());
    return out;
  }
  std::vector<StepActivation> blocks(static_cast<size_t>(c.k / kStepBlock));
  step::quantize_activations(x, c.k, step_geometry(c.dtype), blocks.data());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<double>(blocks[i / kStepBlock].d) * blocks[i / kStepBlock].q[i % kStepBlock];
  }
  return out;
}

TEST_P(StepLinear, EqualsTheFilesValuesTimesRoundedActivations) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    const auto file = random_matrix(c.dtype, c.n, c.k, 1);
    const auto in = random_floats(c.k, 2);
    const StepMatrix w = StepMatrix::pack(c.dtype, file.data(), c.n, c.k).take();
    EXPECT_EQ(w.n(), c.n);
    EXPECT_EQ(w.k(), c.k);
    EXPECT_EQ(w.dtype(), c.dtype);
    std::vector<float> out(static_cast<size_t>(c.n));
    step_linear(w, in.data(), 1, out.data());
    const auto seen = rounded_activations(c, in.data());
    std::vector<float> row(static_cast<size_t>(c.k));
    for (int64_t n = 0; n < c.n; ++n) {
      dequantize_row(c.dtype, file.data() + static_cast<size_t>(n) * row_bytes(c.dtype, c.k), c.k,
                     row.data());
      double exact = 0, magnitude = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        exact += row[i] * seen[i];
        magnitude += std::abs(row[i] * seen[i]);
      }
      // f32 sums over K / 32 blocks; a minimum is summed apart, so its terms count with the codes' full
      // range.
      const double terms =
          is_quantized(c.dtype) ? static_cast<double>(c.k) / 32 + 4 : static_cast<double>(c.k) / 4 + 4;
      const double range = is_quantized(c.dtype) ? 16 : 1;
      ASSERT_NEAR(out[static_cast<size_t>(n)], exact, terms * range * 0x1p-24 * magnitude + 1e-12);
    }
  }
}

TEST_P(StepLinear, RoundsActivationsToWithinHalfAStep) {
  const auto x = random_floats(320, 3);
  std::vector<StepActivation> blocks(10);
  step::quantize_activations(x.data(), 320, step_geometry(DType::kQ4_0), blocks.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const StepActivation& b = blocks[i / 32];
    ASSERT_LE(std::abs(x[i] - b.d * b.q[i % 32]), 0.5001f * b.d);
    if (i % 32 != 0) continue;
    int sum = 0;
    for (const int8_t q : b.q) sum += q;
    ASSERT_EQ(b.init[0], -8 * sum);
    ASSERT_EQ(b.sum, b.d * static_cast<float>(sum));
  }
}

TEST_P(StepLinear, TieRoundsToEven) {
  float x[32] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127.0f};
  StepActivation b;
  step::quantize_activations(x, 32, step_geometry(DType::kQ8_0), &b);
  const int expected[8] = {127, 0, 2, 2, 0, -2, -2, -127};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(b.q[i], expected[i]) << i;
  EXPECT_EQ(b.d, 1.0f);
}

TEST_P(StepLinear, NonFiniteActivationsReachTheResult) {
  const float bad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for (const DType t : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    const auto file = random_matrix(t, 20, 96, 4);
    const StepMatrix w = StepMatrix::pack(t, file.data(), 20, 96).take();
    for (const float value : bad) {
      auto in = random_floats(2 * 96, 5);
      in[96 + 70] = value;
      std::vector<float> out(40);
      step_linear(w, in.data(), 2, out.data());
      for (int n = 0; n < 20; ++n) {
        EXPECT_TRUE(std::isfinite(out[static_cast<size_t>(n)]));
        EXPECT_TRUE(std::isnan(out[static_cast<size_t>(20 + n)]));
      }
    }
  }
}

TEST_P(StepLinear, ZeroAndTinyBlocksGiveZero) {
  const auto file = random_matrix(DType::kQ4_1, 3, 64, 6);
  const StepMatrix w = StepMatrix::pack(DType::kQ4_1, file.data(), 3, 64).take();
  std::vector<float> in(64, 0.0f);
  in[40] = 1e-37f;
  float out[3] = {7, 7, 7};
  step_linear(w, in.data(), 1, out);
  for (const float f : out) EXPECT_EQ(f, 0.0f);
}

TEST_P(StepLinear, ARowHasTheSameBitsInAnyCompany) {
  for (const Case& c : cases()) {
    if (c.n == 1 || c.k > 576) continue;
    SCOPED_TRACE(describe(c));
    const auto file = random_matrix(c.dtype, c.n, c.k, 7);
    const auto in = random_floats(kMaxStepRows * c.k, 8);
    const StepMatrix w = StepMatrix::pack(c.dtype, file.data(), c.n, c.k).take();
    const size_t width = static_cast<size_t>(c.n), depth = static_cast<size_t>(c.k);
    std::vector<float> alone(kMaxStepRows * width);
    for (size_t r = 0; r < kMaxStepRows; ++r)
      step_linear(w, in.data() + r * depth, 1, alone.data() + r * width);
    for (int rows = 2; rows <= kMaxStepRows; ++rows) {
      std::vector<float> permuted(static_cast<size_t>(rows) * depth), out(static_cast<size_t>(rows) * width);
      const auto source = [rows](int r) { return static_cast<size_t>((r * 5 + rows) % kMaxStepRows); };
      for (int r = 0; r < rows; ++r) {
        std::copy_n(in.begin() + static_cast<ptrdiff_t>(source(r) * depth), depth,
                    permuted.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(r) * depth));
      }
      step_linear(w, permuted.data(), rows, out.data());
      for (int r = 0; r < rows; ++r) {
        ASSERT_EQ(std::memcmp(out.data() + static_cast<size_t>(r) * width, alone.data() + source(r) * width,
                              4 * width),
                  0)
            << "row " << r << " of " << rows;
      }
    }
  }
}

// By the twin's functions, not by the scalar rung: NEON builds have no such rung.
std::vector<float> scalar_product(const StepMatrix& w, const std::vector<float>& in, int rows) {
  const StepMatrix::Impl& impl = w.impl();
  const int64_t k = impl.k, blocks = k / kStepBlock;
  std::vector<StepActivation> quantized(static_cast<size_t>(rows * blocks));
  std::vector<float> plain(static_cast<size_t>(rows * impl.padded_k)),
      out(static_cast<size_t>(rows * impl.n));
  for (int r = 0; r < rows; ++r) {
    const float* row = in.data() + r * k;
    if (impl.quantized()) {
      scalar::quantize_activations(row, k, step_geometry(impl.dtype), quantized.data() + r * blocks);
    }
    std::copy_n(row, k, plain.data() + r * impl.padded_k);
  }
  StepCall call;
  call.w = &impl;
  call.quantized = quantized.data();
  call.plain = plain.data();
  call.stride = impl.quantized() ? blocks : impl.padded_k;
  call.rows = rows;
  call.out = out.data();
  scalar::step_tiles(call, 0, impl.tiles);
  return out;
}

TEST_P(StepLinear, EqualsTheScalarTwinOnAnyThreadCount) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(describe(c));
    const auto file = random_matrix(c.dtype, c.n, c.k, 13);
    const auto in = random_floats(7 * c.k, 14);
    const StepMatrix w = StepMatrix::pack(c.dtype, file.data(), c.n, c.k).take();
    const std::vector<float> twin = scalar_product(w, in, 7);
    for (const int threads : {1, 2, 3}) {
      const WithThreads scope(threads);
      std::vector<float> out(twin.size());
      step_linear(w, in.data(), 7, out.data());
      ASSERT_TRUE(same_bits(out, twin)) << threads << " threads";
    }
  }
}

TEST_P(StepLinear, ActivationsAreRoundedAsByTheScalarTwin) {
  for (const DType t : {DType::kQ4_0, DType::kQ6_K}) {
    for (const float deviation : {1e-36f, 1e-20f, 1.0f, 1e30f}) {
      const auto x = random_floats(512, 15, deviation);
      std::vector<StepActivation> twin(16), blocks(16);
      scalar::quantize_activations(x.data(), 512, step_geometry(t), twin.data());
      step::quantize_activations(x.data(), 512, step_geometry(t), blocks.data());
      EXPECT_TRUE(same_bits(blocks, twin));
    }
  }
}

TEST_P(StepLinear, AccumulateAddsOnce) {
  for (const DType t : {DType::kQ4_0, DType::kF16}) {
    const auto file = random_matrix(t, 21, 64, 9);
    const auto in = random_floats(3 * 64, 10);
    const StepMatrix w = StepMatrix::pack(t, file.data(), 21, 64).take();
    auto sum = random_floats(3 * 21, 11);
    const auto before = sum;
    std::vector<float> product(3 * 21);
    step_linear(w, in.data(), 3, product.data());
    step_linear(w, in.data(), 3, sum.data(), true);
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_EQ(sum[i], before[i] + product[i]);
  }
}

TEST(StepMatrix, RefusesWhatItCannotHold) {
  struct Row {
    DType dtype;
    int64_t n, k;
    Code code;
  };
  const Row rows[] = {
      {DType::kI32, 4, 32, Code::kUnsupported},      {DType::kF8E4M3, 4, 32, Code::kUnsupported},
      {DType::kQ4_0, 4, 33, Code::kInvalidArgument}, {DType::kQ4_K, 4, 288, Code::kInvalidArgument},
      {DType::kQ4_0, 0, 32, Code::kInvalidArgument}, {DType::kF32, 4, 0, Code::kInvalidArgument}};
  std::vector<std::byte> bytes(4096);
  for (const Row& r : rows) {
    const auto result = StepMatrix::pack(r.dtype, bytes.data(), r.n, r.k);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), r.code) << result.status().message();
  }
}

TEST(StepMatrix, StorageStaysNearTheFiles) {
  for (const DType t : kTypes) {
    const int64_t n = 64, k = 1536;
    const auto file = random_matrix(t, n, k, 12);
    const StepMatrix w = StepMatrix::pack(t, file.data(), n, k).take();
    EXPECT_LE(static_cast<double>(w.bytes()), 1.035 * static_cast<double>(file.size())) << dtype_info(t).name;
  }
}

}  // namespace
}  // namespace isthmus::kernels
