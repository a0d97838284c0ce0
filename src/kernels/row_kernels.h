// SPDX-License-Identifier: Apache-2.0
// SIMD forms of the elementwise kernels on one thread (elementwise.cpp splits rows over threads).
// Bit-identical to their scalar twins (scalar.h) on every rung: products and sums are rounded separately (but
// for the polynomial of exp.h) and sums keep 16 lanes' order. In the serial build, those twins.
#pragma once

#include <cstdint>

#include "base/float16.h"
#include "kernels/elementwise.h"
#include "kernels/scalar.h"

#ifdef ISTHMUS_COMPUTE_SERIAL
namespace isthmus::kernels {
namespace rows = scalar;
}
#else
namespace isthmus::kernels::rows {

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y);
void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y);
void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin);
void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y);
void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y);
void add_bias(float* y, const float* bias, int64_t n, int64_t width);
void round_to_bf16(const float* x, int64_t count, bf16* y);
void widen(const bf16* x, int64_t count, float* y);  // to f32
// sums[i % 16] += e^(x[i] - top) in ascending order; what is left of a multiple of 16 goes to sums[0].
void add_exp(const float* x, int64_t count, float top, float* sums);

}  // namespace isthmus::kernels::rows
#endif
