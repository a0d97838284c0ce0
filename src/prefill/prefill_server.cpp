// SPDX-License-Identifier: Apache-2.0
#include "prefill/prefill_server.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/log.h"

namespace isthmus {
namespace {

constexpr std::string_view kJsonType = "application/json";

// A reply that fails has nobody to be told to: the client is gone.
void send_json(HttpResponder& reply, const Json& j) {
  (void)reply.send(200, kJsonType, dump_json(j));
}
void send_error(HttpResponder& reply, int status, const Status& error, const HttpHeaders& headers = {}) {
  (void)reply.send(status, kJsonType, error_text(error), headers);
}
void send_error(HttpResponder& reply, const Status& error) {
  send_error(reply, http_status_of(error.code()), error);
}

Status checked_origin(const OriginPolicy& policy, const HttpRequest& request) {
  return check_origin(policy, request.headers.get("Host"), request.headers.get("Origin"));
}

}  // namespace

Result<std::unique_ptr<PrefillServer>> PrefillServer::start(PrefillServerOptions options,
                                                            PrefillHandler& handler) {
  if (options.max_calls < 1 || options.max_calls >= options.http.max_handlers) {
    return Status(Code::kInvalidArgument, "prefill server: max_calls: expected 1 to " +
                                              std::to_string(options.http.max_handlers - 1) + ", got " +
                                              std::to_string(options.max_calls));
  }
  std::unique_ptr<PrefillServer> server(new PrefillServer(std::move(options), handler));
  PrefillServer* const self = server.get();
  ASSIGN_OR_RETURN(server->http_, HttpServer::start(server->options_.http,
                                                    [self](const HttpRequest& request, HttpResponder& reply) {
                                                      self->serve(request, reply);
                                                    }));
  return server;
}

void PrefillServer::stop() {
  if (http_ != nullptr) http_->stop();
}

int PrefillServer::running() const {
  MutexLock lock(mutex_);
  return running_;
}

void PrefillServer::serve(const HttpRequest& request, HttpResponder& reply) {
  struct Route {
    std::string_view path, method;
    bool open;  // without a token
    void (PrefillServer::*handle)(const HttpRequest&, HttpResponder&);
  };
  static constexpr std::array kRoutes = {Route{"/v1/prefill", "POST", false, &PrefillServer::prefill},
                                         Route{"/v1/identity", "GET", false, &PrefillServer::identity},
                                         Route{"/health", "GET", true, &PrefillServer::health}};
  const Status from = checked_origin(options_.origin, request);
  if (!from.ok()) return send_error(reply, from.code() == Code::kInvalidArgument ? 400 : 403, from);
  for (const Route& route : kRoutes) {
    if (request.path != route.path) continue;
    if (request.method != route.method) {
      const Status error(Code::kInvalidArgument, std::string(route.path) + ": expected " +
                                                     std::string(route.method) + ", got " +
                                                     request.method.substr(0, 16));
      return send_error(reply, 405, error, {{"Allow", std::string(route.method)}});
    }
    if (!route.open && !authorized(request)) {
      const Status error(Code::kUnauthenticated, "authorization: expected the configured bearer token");
      return send_error(reply, 401, error, {{"WWW-Authenticate", "Bearer"}});
    }
    return (this->*route.handle)(request, reply);
  }
  send_error(reply, Status(Code::kNotFound, "no route " + request.path.substr(0, 100)));
}

// Digests of equal length are compared, so that the time says nothing about the token's either.
bool PrefillServer::authorized(const HttpRequest& request) const {
  if (options_.auth_token.empty()) return true;
  const auto header = request.headers.get("Authorization");
  if (!header || request.headers.count("Authorization") != 1) return false;
  const Digest got = sha256(*header), expected = sha256("Bearer " + options_.auth_token);
  return equal_constant_time(std::as_bytes(std::span(got.bytes)), std::as_bytes(std::span(expected.bytes)));
}

class PrefillServer::Ended {
 public:
  explicit Ended(PrefillServer& server) : server_(server) {}
  ~Ended() {
    MutexLock lock(server_.mutex_);
    --server_.running_;
  }
  Ended(const Ended&) = delete;
  Ended& operator=(const Ended&) = delete;

 private:
  PrefillServer& server_;
};

Result<PrefillReport> PrefillServer::run(const HttpRequest& request) {
  ASSIGN_OR_RETURN(const PrefillCall call, parse_prefill_call(request.body, options_.limits));
  {
    MutexLock lock(mutex_);
    if (running_ >= options_.max_calls) {
      return Status(Code::kResourceExhausted, "prefill: " + std::to_string(running_) + " calls are running");
    }
    ++running_;
  }
  const Ended ended(*this);  // also when memory runs out below
  Result<PrefillReport> report = handler_.prefill(call, request.cancelled);
  if (report.ok()) {
    log_info("prefill {}: computed {}, reused {}, shipped {} tokens, {:.3f} s", call.transfer_id,
             report->computed_tokens, report->reused_tokens, report->shipped_tokens, report->engine_s);
  } else {
    log_warn("prefill {}: {}", call.transfer_id, report.status().to_string());
  }
  return report;
}

void PrefillServer::prefill(const HttpRequest& request, HttpResponder& reply) {
  const Result<PrefillReport> report = run(request);
  if (!report.ok()) return send_error(reply, report.status());
  (void)reply.send(200, kJsonType, prefill_report_text(*report));
}

void PrefillServer::identity(const HttpRequest&, HttpResponder& reply) {
  Json j;
  j["producer"] = options_.producer.digest.hex();
  j["fields"] = options_.producer.fields;
  j["tokens_per_s"] = options_.tokens_per_s ? options_.tokens_per_s() : 0.0;
  j["uptime_s"] = uptime_s();
  j["max_tokens"] = options_.limits.max_tokens;
  send_json(reply, j);
}

void PrefillServer::health(const HttpRequest&, HttpResponder& reply) {
  Json j;
  j["ok"] = true;
  j["role"] = "prefill";
  j["model"] = options_.model;
  j["producer"] = options_.producer.digest.hex();
  j["running"] = running();
  j["uptime_s"] = uptime_s();
  send_json(reply, j);
}

}  // namespace isthmus
