// SPDX-License-Identifier: Apache-2.0
// From a row of logits to a token. Randomness is counter-based: a draw depends on the seed and on the index
// of the emitted token, not on batch, slot or siblings. Engine thread; scratch is reused, so one Sampler per
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flow/engine.h"

namespace isthmus {

class Sampler {
 public:
  // logits: [V] f32, V >= 1, all finite. Order: log-probabilities are of the whole vocabulary before any
  // filter; then temperature, top-k, top-p, min-p, draw. Ties take the lowest id.
  TokenEvent sample(std::span<const float> logits, const SamplingParams& params, uint64_t index);

 private:
  TokenId draw(std::span<const float> logits, const SamplingParams& params, uint64_t index);

  std::vector<std::pair<float, TokenId>> candidates_;
};

// Uniform in [0, 1) from (seed, index).
double counter_uniform(uint64_t seed, uint64_t index);

}  // namespace isthmus
