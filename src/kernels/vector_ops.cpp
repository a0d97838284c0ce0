// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/row_kernels.h"

namespace isthmus::kernels {
namespace {

// Lanes that the compiler maps to registers; partial results are combined in ascending order.
constexpr int kLanes = 16;

float largest(const float* x, int64_t n) {
  float top[kLanes];
  std::fill(top, top + kLanes, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) top[l] = x[i + l] > top[l] ? x[i + l] : top[l];
  }
  for (; i < n; ++i) top[0] = x[i] > top[0] ? x[i] : top[0];
  return *std::max_element(top, top + kLanes);
}

}  // namespace

int64_t argmax(const float* x, int64_t n) {
  const float top = largest(x, n);
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] == top) return i;
  }
  return 0;
}

float log_sum_exp(const float* x, int64_t n) {
  const float top = largest(x, n);
  // f32 sums of one lane keep their error small as long as a lane's share is; blocks are added in double.
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = std::min(n, begin + kBlock);
    float sum[16] = {};
    rows::add_exp(x + begin, end - begin, top, sum);
    for (const float s : sum) total += static_cast<double>(s);
  }
  return static_cast<float>(static_cast<double>(top) + std::log(total));
}

}  // namespace isthmus::kernels
