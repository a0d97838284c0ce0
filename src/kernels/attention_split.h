// SPDX-License-Identifier: Apache-2.0
// clang-format off
// One work item of attention_step: the query heads of one KV head over one split of one row's context.
// Private to src/kernels. The scalar twin defines the bits. Within a split, in f32:
//   score(key)  16 partial sums; chunk c of 32 values adds fma(K[32c + 2j], q[32c + 2j], ...), then
//               fma(K[32c + 2j + 1], ...) to sum j; reduce_16; times scale
//   weight      exp_scalar(score - largest score of the split)
//   their sum   partial sum j over keys = j mod 16, then reduce_16
//   out[d]      fma(weight, V[key][d], ...) over ascending keys, not normalized
// clang-format on
// Splits are combined in ascending order, products and sums rounded apart.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace isthmus::kernels {

// Splits start at multiples of this position: a row's bits do not depend on threads or neighbours. 4 pages:
// long enough to amortize the combination, short enough to balance few heads over few cores.
inline constexpr int64_t kSplitTokens = 256;

struct AttentionSplit {
  const KvLayerView* kv = nullptr;
  const float* q = nullptr;  // [group, D]
  int kv_head = 0;
  int group = 0;      // query heads of this KV head
  int64_t begin = 0;  // keys [begin, end), within one split
  int64_t end = 0;
  float scale = 0;
  float* out = nullptr;  // [group, D + 2]: D sums, largest score, sum of weights
  // What the same thread does next on this row, to be fetched meanwhile: keys [next_begin, next_end) of
  // next_kv_head; none when empty.
  int64_t next_begin = 0;
  int64_t next_end = 0;
  int next_kv_head = 0;
};

// The fixed order in which 16 partial sums become one.
inline float reduce_16(const float* sums) {
  float eight[8];
  for (int j = 0; j < 8; ++j) eight[j] = sums[j] + sums[j + 8];
  const float low = (eight[0] + eight[2]) + (eight[1] + eight[3]);
  const float high = (eight[4] + eight[6]) + (eight[5] + eight[7]);
  return low + high;
}

// One head's splits, `step` floats from each to the next; each as AttentionSplit::out.
struct SplitPartials {
  const float* first = nullptr;
  int64_t splits = 0;
  int64_t step = 0;
  int dim = 0;
};

// Twins define the bits; the SIMD form gives the same ones on every rung (finite inputs). Any thread.
namespace scalar {
void attention_split(const AttentionSplit& split);
void combine_splits(const SplitPartials& partials, float* out);  // out: [D]
}  // namespace scalar

#ifdef ISTHMUS_COMPUTE_SERIAL
namespace step = scalar;
#else
namespace step {
void attention_split(const AttentionSplit& split);
void combine_splits(const SplitPartials& partials, float* out);
}  // namespace step
#endif

}  // namespace isthmus::kernels
