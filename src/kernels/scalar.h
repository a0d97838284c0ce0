// SPDX-License-Identifier: Apache-2.0
// Scalar twins of the prompt kernels: one thread, no intrinsics, readable. They are the serial build's
// implementation and the oracle of the SIMD tests. Elementwise twins and the f32 GEMM give the SIMD bits;
// attention takes its sums in another order and rounds no weights, and is within 2^-7 relative of rungs that
// round them to bf16. Same contracts as gemm.h, elementwise.h, attention.h.
#pragma once

#include <cstdint>

#include "base/float16.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace isthmus::kernels::scalar {

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y);
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y);
void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin);
void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y);
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y);
void add_bias(float* y, const float* bias, int64_t n, int64_t width);
void round_to_bf16(const float* x, int64_t count, bf16* y);
void widen(const bf16* x, int64_t count, float* y);
void add_exp(const float* x, int64_t count, float top, float* sums);

void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v);
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first,
                      int64_t n, bf16* out);
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first,
                      int64_t n, float* out);

}  // namespace isthmus::kernels::scalar
