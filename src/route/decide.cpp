// SPDX-License-Identifier: Apache-2.0
#include "route/decide.h"

#include <algorithm>

namespace isthmus {
namespace {

// Whether the part of the prompt that the store can keep is too little to be worth a bridge.
bool store_too_small(const RouteFacts& facts, const BridgeLimits& limits, int64_t last) {
  if (last == facts.tokens - 1) return false;
  const bool uncovered = static_cast<double>(last) < limits.min_coverage * static_cast<double>(facts.tokens);
  return uncovered || last + 1 - facts.cached_tokens < limits.min_tail;
}

}  // namespace

Decision decide(const RouteFacts& facts, const BridgeLimits& limits) {
  Decision d;
  d.cached_tokens = facts.cached_tokens;
  const int64_t tail = facts.tokens - facts.cached_tokens;
  const int64_t last = std::min(facts.tokens - 1, facts.storable_tokens);
  if (!facts.prefill_configured) {
    d.why = "no prefill engine configured";
  } else if (facts.tokens < limits.min_tokens) {
    d.why = "short: " + std::to_string(facts.tokens) + " tokens, bridging from " +
            std::to_string(limits.min_tokens);
  } else if (tail < limits.min_tail) {
    d.why = "warm: " + std::to_string(tail) + " tokens uncached, bridging from " +
            std::to_string(limits.min_tail);
  } else if (store_too_small(facts, limits, last)) {
    d.why = "store too small: " + std::to_string(facts.tokens) + " tokens, room for " + std::to_string(last);
  } else if (!facts.prefill_reachable) {
    d.why = "prefill engine unavailable: " + facts.prefill_why;
  } else {
    d.bridge = true;
    d.last = last;
    // Blocks are shipped whole: a cached tail after the last boundary is sent again, at most P - 1 rows.
    d.resume_from = facts.resumable_tokens / facts.block_tokens * facts.block_tokens;
  }
  return d;
}

}  // namespace isthmus
