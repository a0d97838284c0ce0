// SPDX-License-Identifier: Apache-2.0
// A prefill engine as the decode box sees it: start computing a prompt there, its cache arriving by handoff;
// and its health. Implemented by prefill/ (our own engine over HTTP now; vLLM is another). Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "base/token.h"
#include "flow/source.h"

namespace isthmus {

struct PrefillCall {
  std::string transfer_id;
  std::vector<TokenId> ids;
  int64_t resume_from = 0;  // S: rows below it need not be shipped
  Digest identity;          // of the decoder
  std::string instance;     // which of the decoders with this identity asks; empty: any
  SourceKind mode = SourceKind::kProject;
};

struct PrefillReport {
  int64_t computed_tokens = 0;  // computed for this call
  int64_t reused_tokens = 0;    // taken from the engine's own prefix cache
  int64_t shipped_tokens = 0;
  double engine_s = 0;  // start of work to last chunk
};

// A running call. Dropping it cancels the work on the other side.
class PrefillRun {
 public:
  virtual ~PrefillRun() = default;
};

struct PrefillHealth {
  bool reachable = false;
  std::string why;          // when not reachable, or refusing this decoder
  Digest producer;          // what its blocks will be labelled with
  double tokens_per_s = 0;  // recent prefill rate, for predictions; 0: unknown
};

class PrefillEngine {
 public:
  virtual ~PrefillEngine() = default;
  // `on_done` is called once, on a thread of the engine client, unless the run was dropped first.
  virtual Result<std::unique_ptr<PrefillRun>> start(PrefillCall call,
                                                    std::function<void(Result<PrefillReport>)> on_done) = 0;
  virtual PrefillHealth
  health() = 0;  // cached for about a second; never blocks longer than its connect time-out
};

}  // namespace isthmus
