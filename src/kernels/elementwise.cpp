// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include "kernels/parallel.h"
#include "kernels/row_kernels.h"

namespace isthmus::kernels {
namespace {

constexpr int64_t kValuesPerThread = 16 * 1024;  // below this a fork costs more than it saves

}  // namespace

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, float* y) {
  parallel_rows(n, width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::rms_norm(x + begin * width, w, eps, end - begin, width, y + begin * width);
  });
}

void rms_norm(const float* x, const float* w, float eps, int64_t n, int64_t width, bf16* y) {
  parallel_rows(n, width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::rms_norm(x + begin * width, w, eps, end - begin, width, y + begin * width);
  });
}

void rope(float* x, int64_t n, const RopeShape& shape, const float* cos, const float* sin) {
  const int64_t width = static_cast<int64_t>(shape.heads) * shape.head_dim;
  const int half = shape.rotary_dim / 2;
  parallel_rows(n, width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::rope(x + begin * width, end - begin, shape, cos + begin * half, sin + begin * half);
  });
}

void silu_mul(const float* gate_up, int64_t n, int64_t width, bf16* y) {
  parallel_rows(n, 4 * width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::silu_mul(gate_up + begin * 2 * width, end - begin, width, y + begin * width);
  });
}

void silu_mul(const float* gate_up, int64_t n, int64_t width, float* y) {
  parallel_rows(n, 4 * width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::silu_mul(gate_up + begin * 2 * width, end - begin, width, y + begin * width);
  });
}

void add_bias(float* y, const float* bias, int64_t n, int64_t width) {
  parallel_rows(n, width, kValuesPerThread, [&](int64_t begin, int64_t end) {
    rows::add_bias(y + begin * width, bias, end - begin, width);
  });
}

void round_to_bf16(const float* x, int64_t count, bf16* y) {
  parallel_rows(count, 1, kValuesPerThread,
                [&](int64_t begin, int64_t end) { rows::round_to_bf16(x + begin, end - begin, y + begin); });
}

}  // namespace isthmus::kernels
