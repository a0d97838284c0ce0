// SPDX-License-Identifier: Apache-2.0
// The client of a prefill server: flow's PrefillEngine over HTTP, on the decode box. Each call waits for its
// reply on a thread of this object; dropping the run closes the connection, which cancels the work there. Any
// thread. Not the transport of rows: that is the handoff.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/sync.h"
#include "flow/prefill_engine.h"
#include "prefill/peer_http.h"

namespace isthmus {

struct HttpPrefillEngineOptions {
  Peer peer;
  TlsOptions tls;
  int64_t connect_ms = 2'000;
  int64_t health_ms = 1'000;      // a health request, connection included
  int64_t health_ttl_ms = 1'000;  // how long its result is used
};

class HttpPrefillEngine final : public PrefillEngine {
 public:
  // kInvalidArgument: TLS files. `clock` outlives the engine.
  static Result<std::unique_ptr<HttpPrefillEngine>> create(HttpPrefillEngineOptions options,
                                                           const Clock& clock = SystemClock::instance());
  ~HttpPrefillEngine() override;  // cancels what runs

  // Fails at once only for want of a thread: what else goes wrong is told to `on_done`. Dropping the run
  // returns at once unless on_done is running, which is waited for; afterwards on_done is not called. on_done
  // must not drop the run.
  Result<std::unique_ptr<PrefillRun>> start(PrefillCall call,
                                            std::function<void(Result<PrefillReport>)> on_done) override;

  // One request at a time; callers that come meanwhile get the last result, if there is one.
  PrefillHealth health() override;

 private:
  class Call;
  struct Worker {
    std::shared_ptr<Call> call;
    std::jthread thread;
  };

  HttpPrefillEngine(HttpPrefillEngineOptions options, const Clock& clock, HttpClient http)
      : options_(std::move(options)), clock_(clock), http_(std::move(http)) {}
  Result<PrefillReport> ask(const PrefillCall& call, std::stop_token stop) const;
  PrefillHealth fetch_health() const;
  Result<PrefillHealth> parse_health() const;

  const HttpPrefillEngineOptions options_;
  const Clock& clock_;
  const HttpClient http_;

  Mutex health_mutex_;
  CondVar health_changed_;
  PrefillHealth health_ GUARDED_BY(health_mutex_);
  MonotonicTime health_at_ GUARDED_BY(health_mutex_);
  bool health_known_ GUARDED_BY(health_mutex_) = false;
  bool health_asked_ GUARDED_BY(health_mutex_) = false;  // a thread is asking

  Mutex workers_mutex_;
  std::list<Worker> workers_ GUARDED_BY(workers_mutex_);
};

}  // namespace isthmus
