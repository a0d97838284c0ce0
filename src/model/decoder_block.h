// SPDX-License-Identifier: Apache-2.0
// One decoder layer in both arithmetics: norm, attention with grouped KV heads, norm, gated MLP, residuals in
// f32. The families llama, qwen2 and qwen3 differ only by optional weights (biases, q/k norms). Called by the
// model's engine thread. The residual stream is Workspace::x, in and out. Not the embedding or the head: see
// model.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "model/config.h"
#include "model/layer_tap.h"
#include "model/rope_table.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace isthmus {

// What a chunk of one sequence has in common over the layers.
struct PromptChunk {
  int64_t first = 0;  // position of its first token
  int64_t n = 0;
  const RopeTable* rope = nullptr;
  LayerTap* tap = nullptr;  // may be null
};

// One layer of a call.
struct PromptLayer {
  int index = 0;
  kernels::KvLayerView kv;  // with room for the chunk
  bool cache_only =
      false;  // K and V are all that is wanted: the last layer of a prompt, whose output nobody reads
};

// Prompt arithmetic for positions [first, first + n). T: bf16 in production, float in reference.
template <typename T>
void prompt_block(const ModelConfig& c, const BlockWeights& w, const PromptChunk& chunk,
                  const PromptLayer& layer, Workspace& ws);

// Step arithmetic: row r is one token at rows[r].position of the sequence that rows[r].kv views.
// Workspace::cos and sin hold its rotation.
void step_block(const ModelConfig& c, const BlockWeights& w, std::span<const kernels::StepAttentionRow> rows,
                Workspace& ws);

}  // namespace isthmus
