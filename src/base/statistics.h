// SPDX-License-Identifier: Apache-2.0
// Statistics of evaluations: how far two next-token distributions are apart, and means, percentiles and
// bootstrap intervals of such numbers. All arithmetic in double; equal input gives equal output on every
// machine (the bootstrap draws from a generator of fixed seed). Pure; any thread. Not a kernel: rows are read
// a few times each.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace isthmus {

// Natural logarithm of the softmax of a row of logits.
std::vector<double> log_softmax(std::span<const float> logits);

// KL(P || Q) in nats from two rows of log_softmax, of equal size. Exactly 0 for equal rows.
double kl_divergence(std::span<const double> log_p, std::span<const double> log_q);

double mean(std::span<const double> values);  // NaN when empty
// The value at rank q * (n - 1), between neighbours linearly. 0 <= q <= 1; NaN when empty.
double percentile(std::span<const double> values, double q);

struct Interval {
  double low = 0, high = 0;
};
using Statistic = std::function<double(std::span<const double>)>;
// The middle 95 % of `statistic` over `rounds` resamplings of whole groups, with replacement: values of one
// document are not independent of each other, documents are. Groups may have different sizes.
Interval bootstrap_interval(std::span<const std::vector<double>> groups, const Statistic& statistic,
                            int rounds = 2000);

}  // namespace isthmus
