// SPDX-License-Identifier: Apache-2.0
// What the decode box's spine is given by apps/: the stages behind their flow/ interfaces, and the bridge's
// settings. All objects outlive the server; all may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/sync.h"
#include "flow/decision.h"
#include "flow/engine.h"
#include "flow/prefill_engine.h"
#include "flow/prefix_store.h"
#include "flow/transfer.h"

namespace isthmus {

struct BridgeOptions {
  SourceKind mode = SourceKind::kProject;  // capture mode asked of the prefill engine
  std::string instance;                    // of this process, as /v1/identity publishes it
  BridgeLimits limits;
  // Neither a row nor a ping for this long (and no row for ten times as long): the prefill engine hangs or
  // its host is gone. Senders ping every ten seconds.
  std::chrono::milliseconds stall_timeout{60'000};
  // The whole bridge. Longer than a million tokens take on the slowest published pair.
  std::chrono::milliseconds total_timeout{10'800'000};
  // A stream whose bridge takes longer starts with comments instead of silence.
  std::chrono::milliseconds early_stream_after{10'000};
  // Between two progress comments of such a stream.
  std::chrono::milliseconds progress_every{5'000};
};

// Counters for /stats. Any thread.
class BridgeCounters {
 public:
  struct Values {
    uint64_t skipped = 0, complete = 0, partial = 0, salvaged = 0, declined = 0;
    uint64_t payload_bytes = 0;
    double unbridged_wait_s = 0;  // that requests which were not bridged waited for the prefill engine
  };
  Values values() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return values_;
  }
  template <typename Change>
  void change(Change&& c) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    c(values_);
  }

 private:
  mutable Mutex mutex_;
  Values values_ GUARDED_BY(mutex_);
};

struct ServeStages {
  PrefixStore& store;
  Engine& engine;
  PrefillEngine* prefill = nullptr;      // null: a decode server on its own
  TransferReceiver* receiver = nullptr;  // null exactly when prefill is
  BridgeCounters& counters;
  BridgeOptions options;
};

}  // namespace isthmus
