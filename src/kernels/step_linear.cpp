// SPDX-License-Identifier: Apache-2.0
// step_linear's driver: activations into scratch, then output tiles shared out over the OpenMP team.
#include "kernels/step_linear.h"

#include <algorithm>
#include <vector>

#include "kernels/step_layout.h"

namespace isthmus::kernels {
namespace {

// Grows to the largest K a thread has met, so that a thread allocates in its first steps only.
struct Scratch {
  std::vector<StepActivation> quantized;  // [rows][K / 32]
  std::vector<float> plain;               // [rows][padded K]
};
thread_local Scratch scratch;

template <typename In>
void run_tiles(const StepMatrix::Impl& w, const In* in, int64_t stride, int rows, float* out, bool accumulate) {
#ifndef ISTHMUS_COMPUTE_SERIAL
#pragma omp parallel for schedule(static)
#endif
  for (int64_t t = 0; t < w.tiles; ++t) {
    const int64_t first = t * kStepLanes;
    const int64_t lanes = std::min<int64_t>(kStepLanes, w.n - first);
    for (int r = 0; r < rows; ++r) {
      float result[kStepLanes];
      step_tile_scalar(w, t, in + r * stride, result);
      float* to = out + r * w.n + first;
      for (int64_t l = 0; l < lanes; ++l) to[l] = accumulate ? to[l] + result[l] : result[l];
    }
  }
}

}  // namespace

void step_linear(const StepMatrix& matrix, const float* in, int rows, float* out, bool accumulate) {
  const StepMatrix::Impl& w = matrix.impl();
  ISTHMUS_CHECK(rows >= 1 && rows <= kMaxStepRows);
  if (w.quantized()) {
    const int64_t stride = w.k / kStepBlock;
    if (scratch.quantized.size() < static_cast<size_t>(kMaxStepRows * stride)) {
      scratch.quantized.resize(static_cast<size_t>(kMaxStepRows * stride));
    }
    StepActivation* blocks = scratch.quantized.data();
    for (int r = 0; r < rows; ++r) quantize_activations(in + r * w.k, w.k, step_geometry(w.dtype), blocks + r * stride);
    run_tiles(w, blocks, stride, rows, out, accumulate);
    return;
  }
  if (scratch.plain.size() < static_cast<size_t>(kMaxStepRows * w.padded_k)) {
    scratch.plain.resize(static_cast<size_t>(kMaxStepRows * w.padded_k));
  }
  float* padded = scratch.plain.data();
  for (int r = 0; r < rows; ++r) {
    std::copy_n(in + r * w.k, w.k, padded + r * w.padded_k);
    std::fill(padded + r * w.padded_k + w.k, padded + (r + 1) * w.padded_k, 0.0f);
  }
  run_tiles(w, padded, w.padded_k, rows, out, accumulate);
}

}  // namespace isthmus::kernels
