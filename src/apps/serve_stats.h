// SPDX-License-Identifier: Apache-2.0
// The body of GET /stats: counters of every stage, taken at once without waiting for any of them.
#pragma once

#include <optional>

#include "base/json.h"
#include "bridge/stages.h"
#include "flow/engine.h"
#include "handoff/receiver.h"
#include "store/store_stats.h"

namespace isthmus {

struct ServeCounters {
  EngineStats engine;
  StoreStats store;
  BridgeCounters::Values bridge;
  std::optional<handoff::ReceiverStats> handoff;
};
Json serve_stats(const ServeCounters& c);

}  // namespace isthmus
