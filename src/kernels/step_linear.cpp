// SPDX-License-Identifier: Apache-2.0
// step_linear's driver: activations into scratch, then output tiles shared out over the OpenMP team.
#include "kernels/step_linear.h"

#include <algorithm>
#include <vector>

#include "kernels/parallel.h"
#include "kernels/step_layout.h"

namespace isthmus::kernels {
namespace {

// Below this many bytes of weights a thread, a fork costs more than it saves.
constexpr int64_t kBytesPerThread = 32 * 1024;

// Grows to the largest K a thread has met, so that a thread allocates in its first steps only.
struct Scratch {
  std::vector<StepActivation> quantized;  // [rows][K / 32]
  std::vector<float> plain;               // [rows][padded K]
};
thread_local Scratch scratch;

template <typename T>
T* at_least(std::vector<T>& buffer, int64_t count) {
  if (buffer.size() < static_cast<size_t>(count)) buffer.resize(static_cast<size_t>(count));
  return buffer.data();
}

void prepare_quantized(const float* in, StepCall* call) {
  const int64_t k = call->w->k;
  call->stride = k / kStepBlock;
  StepActivation* blocks = at_least(scratch.quantized, kMaxStepRows * call->stride);
  for (int r = 0; r < call->rows; ++r) {
    step::quantize_activations(in + r * k, k, step_geometry(call->w->dtype), blocks + r * call->stride);
  }
  call->quantized = blocks;
}

void prepare_plain(const float* in, StepCall* call) {
  const int64_t k = call->w->k;
  call->stride = call->w->padded_k;
  call->plain = in;
  if (call->stride == k) return;
  float* padded = at_least(scratch.plain, kMaxStepRows * call->stride);
  for (int r = 0; r < call->rows; ++r) {
    std::copy_n(in + r * k, k, padded + r * call->stride);
    std::fill(padded + r * call->stride + k, padded + (r + 1) * call->stride, 0.0f);
  }
  call->plain = padded;
}

}  // namespace

void step_linear(const StepMatrix& matrix, const float* in, int rows, float* out, bool accumulate) {
  ISTHMUS_CHECK(rows >= 1 && rows <= kMaxStepRows);
  StepCall call;
  call.w = &matrix.impl();
  call.rows = rows;
  call.out = out;
  call.accumulate = accumulate;
  call.w->quantized() ? prepare_quantized(in, &call) : prepare_plain(in, &call);
  parallel_rows(call.w->tiles, static_cast<int64_t>(call.w->tile_bytes), kBytesPerThread,
                [&call](int64_t begin, int64_t end) { step::step_tiles(call, begin, end); });
}

}  // namespace isthmus::kernels
