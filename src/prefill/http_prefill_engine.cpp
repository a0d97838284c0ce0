// SPDX-License-Identifier: Apache-2.0
#include "prefill/http_prefill_engine.h"

#include <utility>

#include "base/thread.h"
#include "flow/identity.h"
#include "prefill/prefill_wire.h"

namespace isthmus {
namespace {

// Replies are reports, errors and identities.
constexpr uint64_t kMaxReplyBytes = 1 << 20;

}  // namespace

// What a run and its worker thread share.
class HttpPrefillEngine::Call {
 public:
  explicit Call(std::function<void(Result<PrefillReport>)> on_done) : on_done_(std::move(on_done)) {}

  // on_done is called under the lock: a drop waits for it, or comes first and takes it away.
  void done(Result<PrefillReport> result) {
    MutexLock lock(mutex_);
    if (on_done_) on_done_(std::move(result));
    on_done_ = nullptr;
  }
  void drop() {
    stop.request_stop();
    MutexLock lock(mutex_);
    on_done_ = nullptr;
  }
  void leave() {
    MutexLock lock(mutex_);
    left_ = true;
  }
  bool left() {
    MutexLock lock(mutex_);
    return left_;
  }

  std::stop_source stop;  // closes the connection

 private:
  Mutex mutex_;
  std::function<void(Result<PrefillReport>)> on_done_ GUARDED_BY(mutex_);
  bool left_ GUARDED_BY(mutex_) = false;  // the thread has nothing more to do
};

Result<std::unique_ptr<HttpPrefillEngine>> HttpPrefillEngine::create(HttpPrefillEngineOptions options,
                                                                     const Clock& clock) {
  HttpClientOptions http_options;
  http_options.tls = options.tls;
  http_options.max_response_bytes = kMaxReplyBytes;
  ASSIGN_OR_RETURN(HttpClient http, HttpClient::create(http_options));
  using Self = HttpPrefillEngine;
  return std::unique_ptr<Self>(new Self(std::move(options), clock, std::move(http)));
}

HttpPrefillEngine::~HttpPrefillEngine() {
  MutexLock lock(workers_mutex_);
  for (const Worker& w : workers_) w.call->drop();
  workers_.clear();  // joins
}

Result<PrefillReport> HttpPrefillEngine::ask(const PrefillCall& call, std::stop_token stop) const {
  HttpCall http_call = options_.peer.call("POST", "/v1/prefill");
  http_call.headers.add("Content-Type", "application/json");
  http_call.body = prefill_call_text(call);
  // The reply comes when all is computed, hours later perhaps; stalls are seen by the receiver of the rows.
  http_call.timeouts = {.connect_ms = options_.connect_ms, .idle_ms = -1, .total_ms = -1};
  http_call.stop = std::move(stop);
  ASSIGN_OR_RETURN(const HttpResponse reply, ask_peer(http_, options_.peer, http_call));
  return parse_prefill_report(reply.body);
}

Result<std::unique_ptr<PrefillRun>> HttpPrefillEngine::start(
    PrefillCall call, std::function<void(Result<PrefillReport>)> on_done) {
  class DroppingRun final : public PrefillRun {
   public:
    explicit DroppingRun(std::shared_ptr<Call> c) : call_(std::move(c)) {}
    ~DroppingRun() override { call_->drop(); }

   private:
    std::shared_ptr<Call> call_;
  };

  auto shared = std::make_shared<Call>(std::move(on_done));
  MutexLock lock(workers_mutex_);
  std::erase_if(workers_, [](const Worker& w) { return w.call->left(); });
  ASSIGN_OR_RETURN(std::jthread thread, start_thread([this, shared, call = std::move(call)](std::stop_token) {
                     shared->done(ask(call, shared->stop.get_token()));
                     shared->leave();
                   }));
  workers_.push_back({shared, std::move(thread)});
  return std::unique_ptr<PrefillRun>(std::make_unique<DroppingRun>(std::move(shared)));
}

PrefillHealth HttpPrefillEngine::health() {
  const auto ttl = std::chrono::milliseconds(options_.health_ttl_ms);
  {
    MutexLock lock(health_mutex_);
    while (health_asked_ && !health_known_) health_changed_.wait(health_mutex_);
    if (health_known_ && (health_asked_ || clock_.now() - health_at_ < ttl)) return health_;
    health_asked_ = true;
  }
  PrefillHealth fresh = fetch_health();
  MutexLock lock(health_mutex_);
  health_ = fresh;
  health_at_ = clock_.now();
  health_known_ = true;
  health_asked_ = false;
  health_changed_.notify_all();
  return fresh;
}

PrefillHealth HttpPrefillEngine::fetch_health() const {
  Result<PrefillHealth> health = parse_health();
  if (health.ok()) return health.take();
  PrefillHealth unreachable;
  unreachable.why = health.status().to_string();
  return unreachable;
}

Result<PrefillHealth> HttpPrefillEngine::parse_health() const {
  HttpCall call = options_.peer.call("GET", "/v1/identity");
  call.timeouts = {.connect_ms = options_.health_ms, .idle_ms = -1, .total_ms = options_.health_ms};
  ASSIGN_OR_RETURN(const Json j, ask_peer_json(http_, options_.peer, call));
  const std::string where = options_.peer.name() + "/v1/identity";
  ASSIGN_OR_RETURN(const std::string producer, get_string(j, "producer", where));
  ASSIGN_OR_RETURN(const Identity identity, Identity::from_peer(j.value("fields", Json()), producer));
  PrefillHealth health;
  health.reachable = true;
  health.producer = identity.digest;
  ASSIGN_OR_RETURN(health.tokens_per_s, get_double(j, "tokens_per_s", where));
  return health;
}

}  // namespace isthmus
