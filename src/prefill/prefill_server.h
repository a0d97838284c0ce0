// SPDX-License-Identifier: Apache-2.0
// The HTTP side of the prefill box: POST /v1/prefill runs one call on its handler thread and answers when
// everything is shipped; GET /v1/identity and GET /health answer at once, whatever is running. A client that
// closes its connection cancels its call. Format: docs/formats/prefill-api.md. Knows no model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/sync.h"
#include "flow/identity.h"
#include "flow/prompt_engine.h"
#include "net/http_server.h"
#include "net/origin.h"
#include "prefill/prefill_wire.h"

namespace isthmus {

struct PrefillServerOptions {
  HttpServerOptions http;
  OriginPolicy origin;
  std::string auth_token;  // empty: none is asked for. /health never asks
  std::string model;       // a name for people
  Identity producer;       // producer_identity()
  PrefillLimits limits;
  int max_calls = 32;  // running and waiting; more: 503. Below http.max_handlers, so that /health is answered
  std::function<double()> tokens_per_s;  // the engine's recent rate
};

class PrefillServer {
 public:
  // `handler` outlives the server. Errors: HttpServer's, kInvalidArgument (max_calls).
  static Result<std::unique_ptr<PrefillServer>> start(PrefillServerOptions options, PrefillHandler& handler);
  ~PrefillServer() { stop(); }

  uint16_t port() const { return http_->port(); }
  void stop();  // cancels what runs and waits for it

 private:
  PrefillServer(PrefillServerOptions options, PrefillHandler& handler)
      : options_(std::move(options)), handler_(handler) {}

  void serve(const HttpRequest& request, HttpResponder& reply);
  void prefill(const HttpRequest& request, HttpResponder& reply);
  void identity(const HttpRequest& request, HttpResponder& reply);
  void health(const HttpRequest& request, HttpResponder& reply);
  bool authorized(const HttpRequest& request) const;
  Result<PrefillReport> run(const HttpRequest& request);
  class Ended;  // counts a call out again
  double uptime_s() const { return seconds_since(started_); }
  int running() const EXCLUDES(mutex_);

  const PrefillServerOptions options_;
  PrefillHandler& handler_;
  const MonotonicTime started_ = std::chrono::steady_clock::now();
  mutable Mutex mutex_;
  int running_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<HttpServer> http_;  // last: its threads use the rest
};

}  // namespace isthmus
