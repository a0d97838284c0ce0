// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace isthmus {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

TEST(LogSoftmax, SumsToOneAndIgnoresAShift) {
  const std::vector<float> logits = {1.5F, -2.0F, 0.25F, 8.0F};
  std::vector<float> shifted = logits;
  for (float& l : shifted) l += 1024.0F;
  const std::vector<double> a = log_softmax(logits), b = log_softmax(shifted);
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += std::exp(a[i]);
    EXPECT_NEAR(a[i], b[i], 1e-9);
  }
  EXPECT_NEAR(sum, 1.0, 1e-15);
  EXPECT_NEAR(a[0] - a[1], 3.5, 1e-15);
}

TEST(KlDivergence, KnownValues) {
  struct Row {
    std::vector<float> p, q;
    double expected;
  };
  const float ln3 = std::log(3.0F);
  const Row rows[] = {
      {{0, 0}, {0, 0}, 0},
      {{ln3, 0}, {0, 0}, 0.75 * std::log(1.5) + 0.25 * std::log(0.5)},    // (3/4, 1/4) against (1/2, 1/2)
      {{0, 0}, {ln3, 0}, 0.5 * std::log(2.0 / 3.0) + 0.5 * std::log(2)},  // not symmetric
      {{0, kMinusInfinity}, {0, 0}, std::log(2)},                         // what P excludes costs nothing
  };
  for (const Row& r : rows) EXPECT_NEAR(kl_divergence(log_softmax(r.p), log_softmax(r.q)), r.expected, 1e-7);
  EXPECT_TRUE(std::isnan(
      kl_divergence(log_softmax(std::vector<float>{kNaN, 0}), log_softmax(std::vector<float>{0, 0}))));
  EXPECT_TRUE(std::isnan(
      kl_divergence(log_softmax(std::vector<float>{0, 0}), log_softmax(std::vector<float>{kNaN, kNaN}))));
  const std::vector<double> excludes = log_softmax(std::vector<float>{0, kMinusInfinity});
  EXPECT_EQ(kl_divergence(log_softmax(std::vector<float>{0, 0}), excludes),
            std::numeric_limits<double>::infinity());
}

TEST(KlDivergence, EqualRowsGiveExactlyZero) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) logits.push_back(std::sin(static_cast<float>(i)) * 20.0F);
  EXPECT_EQ(kl_divergence(log_softmax(logits), log_softmax(logits)), 0.0);
  std::vector<float> other = logits;
  other[7] += 1.0F;
  EXPECT_GT(kl_divergence(log_softmax(logits), log_softmax(other)), 0.0);
}

TEST(MeanAndPercentile, OfSmallSets) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_EQ(mean(values), 2.5);
  EXPECT_EQ(percentile(values, 0), 1.0);
  EXPECT_EQ(percentile(values, 1), 4.0);
  EXPECT_EQ(percentile(values, 0.5), 2.5);
  EXPECT_NEAR(percentile(values, 0.95), 3.85, 1e-12);
  EXPECT_EQ(percentile(std::vector<double>{7}, 0.95), 7.0);
  EXPECT_TRUE(std::isnan(mean({})) && std::isnan(percentile({}, 0.5)));
}

TEST(Bootstrap, ResamplesWholeGroups) {
  // Two groups, each constant: a resampled mean can only be 0, 0.5 or 1.
  const std::vector<std::vector<double>> two = {std::vector<double>(50, 0.0), std::vector<double>(50, 1.0)};
  std::vector<double> seen;
  const Interval whole = bootstrap_interval(two, [&](std::span<const double> v) {
    seen.push_back(mean(v));
    return seen.back();
  });
  EXPECT_EQ(seen.size(), 2000u);
  for (const double m : seen) EXPECT_TRUE(m == 0.0 || m == 0.5 || m == 1.0) << m;
  EXPECT_EQ(whole.low, 0.0);
  EXPECT_EQ(whole.high, 1.0);
}

TEST(Bootstrap, CoversTheMeanAndRepeats) {
  std::vector<std::vector<double>> groups;
  for (int i = 0; i < 40; ++i) groups.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
  const Interval a = bootstrap_interval(groups, mean), b = bootstrap_interval(groups, mean);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  // Standard error of the mean of 0..39: 11.5 / sqrt(40) = 1.83.
  EXPECT_NEAR(a.low, 20 - 1.96 * 1.83, 0.5);
  EXPECT_NEAR(a.high, 20 + 1.96 * 1.83, 0.5);
  EXPECT_TRUE(std::isnan(bootstrap_interval({}, mean).low));
}

}  // namespace
}  // namespace isthmus
