// SPDX-License-Identifier: Apache-2.0
// Scalar twin of the step attention kernel.
#include "kernels/attention_split.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace isthmus::kernels {
namespace {

// Address of value 0 of a key's K or V row in its page.
const std::byte* cache_row(const KvLayerView& kv, int kv_head, int64_t token, bool value) {
  const size_t page = static_cast<size_t>(kv.table[token / kPageTokens]);
  const int64_t row = (value ? kv.kv_heads * kPageTokens : 0) + kv_head * kPageTokens + token % kPageTokens;
  const size_t width = kv.dtype == DType::kF32 ? 4 : 2;
  return kv.base + page * kv.page_bytes + static_cast<size_t>(row * kv.head_dim) * width;
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

float exp_f32(float x) {
  if (x < -87.0f) return 0.0f;
  // x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts so that n * high is exact.
  const float n = std::nearbyint(x * 1.44269504f);
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.38888889e-3f;
  p = std::fma(p, r, 8.33333333e-3f);
  p = std::fma(p, r, 4.16666667e-2f);
  p = std::fma(p, r, 1.66666667e-1f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  if (!(n >= -126.0f)) return p * n;  // NaN
  return p * std::bit_cast<float>(static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23);
}

void attention_split_scalar(const AttentionSplit& s) {
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
      const float weight = exp_f32(weights[t % kSplitTokens] - largest);
      sums[t % 16] += weight;
      const std::byte* value = cache_row(*s.kv, s.kv_head, t, true);
      for (int d = 0; d < dim; ++d) out[d] = std::fma(weight, cache_value(s.kv->dtype, value, d), out[d]);
    }
    out[dim] = largest;
    out[dim + 1] = reduce_16(sums);
  }
}

}  // namespace isthmus::kernels
