// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/status.h"

namespace isthmus {
namespace {

constexpr uint64_t kSeed = 20240229;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::vector<double> log_softmax(std::span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float l : logits) largest = std::max(largest, static_cast<double>(l));  // NaN shows in the sum
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - largest);
  const double shift = largest + std::log(sum);
  std::vector<double> out;
  out.reserve(logits.size());
  for (const float l : logits) out.push_back(static_cast<double>(l) - shift);
  return out;
}

double kl_divergence(std::span<const double> log_p, std::span<const double> log_q) {
  ISTHMUS_CHECK(log_p.size() == log_q.size());
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]);
    if (p == 0) continue;  // not NaN, which must show in the sum
    sum += p * (log_p[i] - log_q[i]);
  }
  return sum;
}

double mean(std::span<const double> values) {
  if (values.empty()) return kNaN;
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double percentile(std::span<const double> values, double q) {
  if (values.empty()) return kNaN;
  std::vector<double> sorted(values.begin(), values.end());
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(rank);
  const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(sorted.begin(), at, sorted.end());
  const double part = rank - static_cast<double>(below);
  if (part <= 0) return *at;
  const double next = *std::min_element(at + 1, sorted.end());
  return *at + part * (next - *at);
}

Interval bootstrap_interval(std::span<const std::vector<double>> groups, const Statistic& statistic,
                            int rounds) {
  if (groups.empty() || rounds <= 0) return {kNaN, kNaN};
  std::mt19937_64 draw(kSeed);
  std::vector<double> results, sample;
  results.reserve(static_cast<size_t>(rounds));
  for (int round = 0; round < rounds; ++round) {
    sample.clear();
    for (size_t i = 0; i < groups.size(); ++i) {
      // Not uniform_int_distribution: what that draws differs between standard libraries. The bias of the
      // remainder is below 2^-50 here.
      const std::vector<double>& group = groups[static_cast<size_t>(draw() % groups.size())];
      sample.insert(sample.end(), group.begin(), group.end());
    }
    results.push_back(statistic(sample));
  }
  return {percentile(results, 0.025), percentile(results, 0.975)};
}

}  // namespace isthmus
