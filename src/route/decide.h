// SPDX-License-Identifier: Apache-2.0
// Cold or warm, bridge or not: a pure function of facts gathered before. Any thread. Starts nothing and waits
// for nothing, so a short or warm request never queues behind a running bridge.
#pragma once

#include <cstdint>
#include <string>

#include "flow/decision.h"

namespace isthmus {

struct RouteFacts {
  int64_t tokens = 0;         // T
  int64_t cached_tokens = 0;  // longest prefix in the store, any accepted source
  int64_t resumable_tokens =
      0;  // longest prefix that a bridge may continue: native, or of this prefill engine
  int64_t storable_tokens = 0;  // of the T - 1 that a bridge can bring, those that the store has room for
  int block_tokens = 256;       // P
  bool prefill_configured = false;
  bool prefill_reachable = false;
  std::string prefill_why;  // when not reachable
};

Decision decide(const RouteFacts& facts, const BridgeLimits& limits);

}  // namespace isthmus
