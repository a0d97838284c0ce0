// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

TEST(VectorOps, ArgmaxTakesTheLowestOfEqualsAndSkipsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  struct Row {
    std::vector<float> x;
    int64_t expected;
  };
  const Row rows[] = {{{3}, 0},         {{1, 2, 2}, 1},    {{-1, -2}, 0},      {{nan, -5, nan, -4}, 3},
                      {{nan, nan}, 0},  {{-inf, -inf}, 0}, {{0.0f, -0.0f}, 0}, {{1, inf, inf}, 1},
                      {{nan, -inf}, 1}, {{-5, -1, -3}, 1}, {{0, nan, -1}, 0},  {{-inf, -1e30f}, 1}};
  for (const Row& r : rows) EXPECT_EQ(argmax(r.x.data(), static_cast<int64_t>(r.x.size())), r.expected);
}

TEST(VectorOps, ArgmaxFindsEveryPosition) {
  for (int64_t n = 1; n <= 70; ++n) {
    for (int64_t at = 0; at < n; ++at) {
      std::vector<float> x = random_floats(n, 1);
      x[static_cast<size_t>(at)] = 100;
      ASSERT_EQ(argmax(x.data(), n), at);
    }
  }
}

TEST(VectorOps, LogSumExpNearDouble) {
  for (const int64_t n : {1, 2, 15, 16, 17, 4095, 4096, 4097, 49152, 262144}) {
    for (const float deviation : {0.0f, 1.0f, 30.0f}) {
      const auto x = random_floats(n, 2, deviation);
      double top = x[0], total = 0;
      for (const float f : x) top = std::max(top, static_cast<double>(f));
      for (const float f : x) total += std::exp(f - top);
      const double expected = top + std::log(total);
      ASSERT_NEAR(log_sum_exp(x.data(), n), expected, 1e-6 * (1 + std::abs(expected)))
          << n << " " << deviation;
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels
