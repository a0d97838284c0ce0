// SPDX-License-Identifier: Apache-2.0
// LayerTap: what a prompt run shows to whoever captures its cache (capture/). Called on the engine thread, in
// ascending layer order within a chunk, chunks in ascending position. The pointers die when the call returns:
// copy or compute at once. Not called for step rows. A null tap costs nothing.
#pragma once

#include <cstdint>

namespace isthmus {

class LayerTap {
 public:
  virtual ~LayerTap() = default;

  // Residual stream before the layer's input norm. x: [n, E] f32, rows of positions [first, first + n).
  virtual void on_layer_input(int layer, int64_t first, int64_t n, const float* x) = 0;

  // The layer's own K (after RoPE) and V, before rounding to the cache dtype. k, v: [n, Hk, D] f32.
  virtual void on_kv(int layer, int64_t first, int64_t n, const float* k, const float* v) = 0;
};

}  // namespace isthmus
