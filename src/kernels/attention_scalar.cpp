// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/status.h"
#include "kernels/exp.h"
#include "kernels/kv_pages.h"
#include "kernels/scalar.h"

namespace isthmus::kernels::scalar {
namespace {

// Below every score, yet finite: the difference of two such maxima is 0, not NaN.
constexpr float kNoScore = -3.0e38f;

float value(float v) {
  return v;
}
float value(bf16 v) {
  return to_float(v);
}
void store(float v, float* y) {
  *y = v;
}
void store(float v, bf16* y) {
  *y = to_bf16(v);
}

template <typename T>
float dot(const T* a, const T* b, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += value(a[i]) * value(b[i]);
  return sum;
}

struct Running {
  float max = kNoScore;
  float sum = 0;
  std::vector<float> acc;
};

template <typename T>
struct Page {
  const T* k;  // [64, D]
  const T* v;
  int begin, end;  // the keys that the row sees
};

// Folds one page into the running softmax. scale: times log2(e), weights being powers of two.
template <typename T>
void fold_page(const T* q, const Page<T>& page, int dim, float scale, Running& run) {
  float p[kPageTokens];
  float max = run.max;
  for (int j = page.begin; j < page.end; ++j) {
    p[j] = dot(q, page.k + j * dim, dim) * scale;
    max = std::max(max, p[j]);
  }
  const float shrink = exp2_scalar(run.max - max);
  float sum = 0;
  for (int d = 0; d < dim; ++d) run.acc[d] *= shrink;
  for (int j = page.begin; j < page.end; ++j) {
    const float e = exp2_scalar(p[j] - max);
    sum += e;
    for (int d = 0; d < dim; ++d) run.acc[d] += e * value(page.v[j * dim + d]);
  }
  run.sum = run.sum * shrink + sum;
  run.max = max;
}

template <typename T>
void attend(const KvLayerView& kv, const AttentionShape& shape, const T* q, int64_t first, int64_t n,
            T* out) {
  const int dim = kv.head_dim;
  const int group = shape.heads / kv.kv_heads;
  const float scale = shape.scale * ExpConstants::kLog2e;
  for (int64_t r = 0; r < n; ++r) {
    const int64_t position = first + r;
    const int64_t from = first_visible(shape, position);
    for (int h = 0; h < shape.heads; ++h, q += dim, out += dim) {
      Running run;
      run.acc.assign(dim, 0.0f);
      for (int64_t page = from / kPageTokens; page <= position / kPageTokens; ++page) {
        const int64_t start = page * kPageTokens;
        const int begin = static_cast<int>(std::max<int64_t>(from - start, 0));
        const int end = static_cast<int>(std::min<int64_t>(position + 1 - start, kPageTokens));
        const Page<T> seen{k_rows<T>(kv, page, h / group), v_rows<T>(kv, page, h / group), begin, end};
        fold_page(q, seen, dim, scale, run);
      }
      const float inv = 1.0f / run.sum;
      for (int d = 0; d < dim; ++d) store(run.acc[d] * inv, &out[d]);
    }
  }
}

template <typename T>
void append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v) {
  for (int64_t r = 0; r < n; ++r) {
    const int64_t page = (first + r) / kPageTokens;
    const int64_t slot = (first + r) % kPageTokens;
    for (int h = 0; h < kv.kv_heads; ++h, k += kv.head_dim, v += kv.head_dim) {
      T* k_out = k_rows<T>(kv, page, h) + slot * kv.head_dim;
      T* v_out = v_rows<T>(kv, page, h) + slot * kv.head_dim;
      for (int d = 0; d < kv.head_dim; ++d) {
        store(k[d], &k_out[d]);
        store(v[d], &v_out[d]);
      }
    }
  }
}

}  // namespace

void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v) {
  ISTHMUS_CHECK(kv.dtype == DType::kBF16 || kv.dtype == DType::kF32);
  kv.dtype == DType::kF32 ? append<float>(kv, first, n, k, v) : append<bf16>(kv, first, n, k, v);
}

void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first,
                      int64_t n, bf16* out) {
  ISTHMUS_CHECK(kv.dtype == DType::kBF16);
  attend(kv, shape, q, first, n, out);
}

void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first,
                      int64_t n, float* out) {
  ISTHMUS_CHECK(kv.dtype == DType::kF32);
  attend(kv, shape, q, first, n, out);
}

}  // namespace isthmus::kernels::scalar
