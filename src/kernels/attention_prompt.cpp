// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"
#include "kernels/scalar.h"

namespace isthmus::kernels {

void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v) {
  scalar::kv_append(kv, first, n, k, v);
}
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first, int64_t n,
                      bf16* out) {
  scalar::attention_prompt(kv, shape, q, first, n, out);
}
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first, int64_t n,
                      float* out) {
  scalar::attention_prompt(kv, shape, q, first, n, out);
}

}  // namespace isthmus::kernels
