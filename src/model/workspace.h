// SPDX-License-Identifier: Apache-2.0
// The activations of one forward call, as named buffers allocated once and grown when a larger chunk comes.
// Owned by a Model, used by its engine thread only; contents mean nothing between calls. Not the KV cache:
// see kv_pool.h.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/float16.h"
#include "base/status.h"
#include "model/config.h"

namespace isthmus {

// What the matrix products of a prompt chunk read: bf16 in production, f32 in reference arithmetic.
template <typename T>
struct Activations {
  AlignedBuffer<T> normed;     // [n, E]
  AlignedBuffer<T> q;          // [n, H, D]
  AlignedBuffer<T> attention;  // [n, H, D]
  AlignedBuffer<T> gated;      // [n, F]
};

struct Workspace {
  AlignedBuffer<float> x;        // [n, E] residual stream
  AlignedBuffer<float> q;        // [n, H, D]
  AlignedBuffer<float> k, v;     // [n, Hk, D]
  AlignedBuffer<float> gate_up;  // [n, 2F]
  Activations<bf16> half;        // production prompts
  Activations<float> full;       // steps, and all of reference arithmetic
  // Steps only, for kMaxStepRows rows.
  AlignedBuffer<float> qkv;       // [rows, (H + 2 Hk) D]
  AlignedBuffer<float> cos, sin;  // [rows, rotary_dim / 2]
  AlignedBuffer<float> stacked;   // [rows, widest stack] scratch of StepLinear

  // Room for chunks of `n` tokens, and for steps. Errors: kResourceExhausted (and then the buffers are
  // unusable until a reserve succeeds).
  Status reserve(const ModelConfig& c, int64_t n, bool production);

 private:
  int64_t tokens_ = 0;
};

}  // namespace isthmus
