// SPDX-License-Identifier: Apache-2.0
// Scalar twin of the step attention kernel.
#include "kernels/attention_split.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/exp.h"
#include "kernels/kv_pages.h"

namespace isthmus::kernels {
namespace {

// A key's K or V row.
const std::byte* cache_row(const KvLayerView& kv, int kv_head, int64_t token, bool value) {
  const size_t row_bytes = static_cast<size_t>(kv.head_dim) * (kv.dtype == DType::kF32 ? 4 : 2);
  const int64_t page = token / kPageTokens;
  const std::byte* rows;
  if (kv.dtype == DType::kF32) {
    rows = reinterpret_cast<const std::byte*>(value ? v_rows<float>(kv, page, kv_head)
                                                    : k_rows<float>(kv, page, kv_head));
  } else {
    rows = reinterpret_cast<const std::byte*>(value ? v_rows<bf16>(kv, page, kv_head)
                                                    : k_rows<bf16>(kv, page, kv_head));
  }
  return rows + static_cast<size_t>(token % kPageTokens) * row_bytes;
}

float cache_value(DType dtype, const std::byte* row, int d) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(row)[d];
  return to_float(reinterpret_cast<const bf16*>(row)[d]);
}

float score(const AttentionSplit& s, const float* q, const std::byte* key) {
  float sums[16] = {};
  for (int d = 0; d < s.kv->head_dim; ++d) {
    float& sum = sums[d % 32 / 2];
    sum = std::fma(cache_value(s.kv->dtype, key, d), q[d], sum);
  }
  return reduce_16(sums) * s.scale;
}

}  // namespace

namespace scalar {

void attention_split(const AttentionSplit& s) {
  const int dim = s.kv->head_dim;
  for (int h = 0; h < s.group; ++h) {
    const float* q = s.q + h * dim;
    float* out = s.out + h * (dim + 2);
    float weights[kSplitTokens];
    float largest = -std::numeric_limits<float>::infinity();
    for (int64_t t = s.begin; t < s.end; ++t) {
      weights[t % kSplitTokens] = score(s, q, cache_row(*s.kv, s.kv_head, t, false));
      largest = std::max(largest, weights[t % kSplitTokens]);
    }
    float sums[16] = {};
    std::fill(out, out + dim, 0.0f);
    for (int64_t t = s.begin; t < s.end; ++t) {
      const float weight = exp_scalar(weights[t % kSplitTokens] - largest);
      sums[t % 16] += weight;
      const std::byte* value = cache_row(*s.kv, s.kv_head, t, true);
      for (int d = 0; d < dim; ++d) out[d] = std::fma(weight, cache_value(s.kv->dtype, value, d), out[d]);
    }
    out[dim] = largest;
    out[dim + 1] = reduce_16(sums);
  }
}

void combine_splits(const SplitPartials& p, float* out) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t s = 0; s < p.splits; ++s) largest = std::max(largest, p.first[s * p.step + p.dim]);
  std::fill(out, out + p.dim, 0.0f);
  float total = 0;
  for (int64_t s = 0; s < p.splits; ++s) {
    const float* partial = p.first + s * p.step;
    const float weight = exp_scalar(partial[p.dim] - largest);
    total += weight * partial[p.dim + 1];
    for (int d = 0; d < p.dim; ++d) out[d] += weight * partial[d];
  }
  const float inverse = 1.0f / total;
  for (int d = 0; d < p.dim; ++d) out[d] *= inverse;
}

}  // namespace scalar

}  // namespace isthmus::kernels
