// SPDX-License-Identifier: Apache-2.0
// Reductions over one row of logits, for the sampler. Called by the engine thread; one thread. Fixed order:
// the same row gives the same bits on every rung. Not softmax over attention scores: see attention.h.
#pragma once

#include <cstdint>

namespace isthmus::kernels {

// Index of the largest of x[n], n > 0: the lowest one on ties. NaN never wins; 0 when all are NaN.
int64_t argmax(const float* x, int64_t n);

// log(sum of exp(x[i])), n > 0, finite x: subtract it from a logit for its log-probability. Within 1e-6 * (1
// + |result|).
float log_sum_exp(const float* x, int64_t n);

}  // namespace isthmus::kernels
