// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include "kernels/scalar.h"

namespace isthmus::kernels {

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  scalar::rms_norm(x, w, eps, n, width, y);
}
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  scalar::rms_norm(x, w, eps, n, width, y);
}
void rope(float* x, int64_t n, int heads, int head_dim, int rotary_dim, RopePairs pairs, const float* cos,
          const float* sin) {
  scalar::rope(x, n, heads, head_dim, rotary_dim, pairs, cos, sin);
}
void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y) { scalar::silu_mul(gate_up, n, width, y); }
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y) { scalar::silu_mul(gate_up, n, width, y); }
void add_bias(float* y, const float* bias, int64_t n, int64_t width) { scalar::add_bias(y, bias, n, width); }
void round_to_bf16(const float* x, int64_t count, bf16* y) { scalar::round_to_bf16(x, count, y); }

}  // namespace isthmus::kernels
