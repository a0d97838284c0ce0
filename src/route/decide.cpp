// SPDX-License-Identifier: Apache-2.0
#include "route/decide.h"

namespace isthmus {

Decision decide(const RouteFacts& facts, const BridgeLimits& limits) {
  Decision d;
  d.cached_tokens = facts.cached_tokens;
  const int64_t tail = facts.tokens - facts.cached_tokens;
  if (!facts.prefill_configured) {
    d.why = "no prefill engine configured";
  } else if (facts.tokens < limits.min_tokens) {
    d.why = "short: " + std::to_string(facts.tokens) + " tokens, bridging from " +
            std::to_string(limits.min_tokens);
  } else if (tail < limits.min_tail) {
    d.why = "warm: " + std::to_string(tail) + " tokens uncached, bridging from " +
            std::to_string(limits.min_tail);
  } else if (!facts.prefill_reachable) {
    d.why = "prefill engine unavailable: " + facts.prefill_why;
  } else {
    d.bridge = true;
    // Blocks are shipped whole: a cached tail after the last boundary is sent again, at most P - 1 rows.
    d.resume_from = facts.resumable_tokens / facts.block_tokens * facts.block_tokens;
  }
  return d;
}

}  // namespace isthmus
