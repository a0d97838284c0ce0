// SPDX-License-Identifier: Apache-2.0
// Runs a model over tokens that are known beforehand and hands on its logits row by row, so that memory stays
// bounded however many rows there are. For evaluation; the engine thread's, as everything of a Model. Not
// generation: nothing is sampled.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "base/token.h"
#include "model/kv_pool.h"
#include "model/layer_tap.h"
#include "model/model.h"

namespace isthmus {

// What the model says after the token at `position`. logits: [V], gone when the call returns. An error ends
// the run.
using LogitsRow = std::function<Status(int64_t position, std::span<const float> logits)>;

// Appends `ids` to `seq` in prompt arithmetic, in chunks of `chunk_tokens`; no logits. after_chunk (may be
// empty) is called with the new length. `tap` may be null. Errors: those of Model::prompt, after_chunk's.
Status read_prompt(Model& model, std::span<const TokenId> ids, Sequence& seq, LayerTap* tap,
                   int64_t chunk_tokens, const std::function<Status(int64_t)>& after_chunk);

// Appends `ids` to `seq` in prompt arithmetic, with a row of logits for each. The head is the one that
// follows a last prompt token: there is no other.
Status force_prompt(Model& model, std::span<const TokenId> ids, Sequence& seq, const LogitsRow& row);

// The same in step arithmetic, as if the model had generated `ids`.
Status force_steps(Model& model, std::span<const TokenId> ids, Sequence& seq, const LogitsRow& row);

}  // namespace isthmus
