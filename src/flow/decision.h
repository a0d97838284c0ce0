// SPDX-License-Identifier: Apache-2.0
// The outcome of route/: bridge or not, from where, and why. Values.
#pragma once

#include <cstdint>
#include <string>

namespace isthmus {

struct BridgeLimits {
  int64_t min_tokens = 1024;  // shorter prompts gain less than a round trip costs
  int64_t min_tail = 1024;    // uncached tokens below this are cheaper to compute than to fetch
  double min_coverage = 0.5;  // a bridge that brings less than this of the prompt is declined
};

struct Decision {
  bool bridge = false;
  int64_t resume_from = 0;  // S: a block boundary
  int64_t last = 0;         // rows [S, last) are asked for: T - 1, or as far as the store holds the prompt
  int64_t cached_tokens = 0;
  std::string why;  // when not bridging: "short", "warm", "store too small", ...
};

}  // namespace isthmus
