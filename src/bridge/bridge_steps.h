// SPDX-License-Identifier: Apache-2.0
// The steps of a bridge on the decode box, each a few lines of its own: what to expect, how long to wait for
// it, and what to say about it. Called by serve_request only, on the request's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "bridge/stages.h"
#include "flow/request.h"

namespace isthmus {

Verdict skipped(const Request& rq, const Decision& d, const BridgeOptions& options);
Verdict bridge_started(const Request& rq, const Decision& d, const BridgeOptions& options);
Verdict declined(Verdict v, const Status& why);

// The chain that continues `warm` with blocks of `source`.
ChainSpec chain_after(const Request& rq, const CachedPrefix& warm, const Source& source,
                      const PrefixStore& store);
TransferSpec transfer_for(const Request& rq, const ChainSpec& chain, const PrefixStore& store);
PrefillCall prefill_call(const Request& rq, const TransferSpec& spec, const BridgeOptions& options);

// The prefill engine's answer, which may come after the last row or instead of it. An error ends the
// transfer.
class PrefillOutcome {
 public:
  explicit PrefillOutcome(IncomingTransfer& transfer);
  std::function<void(Result<PrefillReport>)> callback();
  // Waits briefly when the transfer was sealed, since the engine answers after its last ACK.
  std::optional<PrefillReport> report(const TransferState& landed);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// Until the transfer ends, stalls, runs out of time or the client leaves; tells a waiting stream how far it
// is.
TransferState wait_for_transfer(IncomingTransfer& transfer, const Request& rq, const Verdict& so_far,
                                const BridgeOptions& options, ReplySink& reply);

Verdict verdict_of(Verdict v, const TransferSpec& spec, const TransferState& landed,
                   const std::optional<PrefillReport>& report, ServeStages& s);
void count(const Verdict& v, BridgeCounters& counters);
void count_wait(double seconds, BridgeCounters& counters);  // of a request that was not bridged

}  // namespace isthmus
