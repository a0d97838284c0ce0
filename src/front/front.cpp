// SPDX-License-Identifier: Apache-2.0
#include "front/front.h"

#include <algorithm>
#include <atomic>

#include "base/log.h"
#include "front/access.h"
#include "front/generation.h"
#include "front/reply_error.h"
#include "front/routes.h"

namespace isthmus {
namespace {

// Handler threads beyond those of generations, so that /health and /stats find one.
constexpr int kSpareHandlers = 8;

int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             SystemClock::instance().wall_now().time_since_epoch())
      .count();
}

OriginPolicy origin_policy(const FrontOptions& options) {
  OriginPolicy policy{options.allowed_hosts};
  policy.allowed_hosts.push_back(options.http.address);
  return policy;
}

ApiError not_found(const std::string& what) {
  return {Status(Code::kNotFound, what), {}, {}, 0};
}

}  // namespace

struct Front::Impl {
  Impl(FrontOptions o, FrontDeps d) : options(std::move(o)), deps(std::move(d)) {}

  void handle(const HttpRequest& request, HttpResponder& responder);
  void generate(RequestKind kind, const HttpRequest& request, HttpResponder& responder);
  void answer(const RouteMatch& match, HttpResponder& responder);
  Json model_json(const std::string& name) const;
  void models(HttpResponder& responder) const;
  void model(const std::string& name, HttpResponder& responder) const;
  void projection(HttpResponder& responder) const;

  const FrontOptions options;
  const FrontDeps deps;
  const OriginPolicy policy = origin_policy(options);
  const int64_t created = unix_now();
  std::atomic<int> running{0};
  std::unique_ptr<HttpServer> server;  // last: its handlers use what stands above
};

void Front::Impl::handle(const HttpRequest& request, HttpResponder& responder) {
  if (const auto error = check_site(request, policy)) return send_api_error(responder, *error);
  const RouteMatch match = find_route(request.method, request.path);
  if (!match.allowed.empty()) {
    const std::string allowed(match.allowed);
    const Status status(Code::kInvalidArgument, request.path + ": expected " + allowed);
    return send_api_error(responder, {status, {}, "method_not_allowed", 405}, {{"Allow", allowed}});
  }
  if (!match.route) return send_api_error(responder, not_found("no such path: " + request.path));
  if (match.needs_token) {
    if (const auto error = check_token(request, options.token)) return send_api_error(responder, *error);
  }
  if (match.route == Route::kChat) return generate(RequestKind::kChat, request, responder);
  if (match.route == Route::kCompletion) return generate(RequestKind::kCompletion, request, responder);
  answer(match, responder);
}

void Front::Impl::generate(RequestKind kind, const HttpRequest& request, HttpResponder& responder) {
  struct Slot {
    explicit Slot(std::atomic<int>& count) : count_(count), taken(count.fetch_add(1) + 1) {}
    ~Slot() { count_.fetch_sub(1); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    std::atomic<int>& count_;
    const int taken;
  };
  const Slot slot(running);
  if (slot.taken > options.max_requests) {
    const Status status(Code::kResourceExhausted, "front: " + std::to_string(options.max_requests) +
                                                      " requests are running or waiting already");
    const ApiError error{status, {}, "queue_full", 0};
    return send_api_error(responder, error, with_verdict({}, refused_verdict(options, error)));
  }
  serve_generation(kind, request, responder, options, deps);
}

void Front::Impl::answer(const RouteMatch& match, HttpResponder& responder) {
  switch (*match.route) {
    case Route::kModels:
      return models(responder);
    case Route::kModel:
      return model(match.argument, responder);
    case Route::kIdentity:
      return send_json(responder, 200, deps.identity);
    case Route::kProjection:
      return projection(responder);
    case Route::kStats:
      return send_json(responder, 200, deps.stats ? deps.stats() : Json::object());
    case Route::kHealth:
      return send_json(responder, 200, Json{{"status", "ok"}});
    case Route::kChat:
    case Route::kCompletion:
      return;  // generate()
  }
}

Json Front::Impl::model_json(const std::string& name) const {
  Json j;
  j["id"] = name;
  j["object"] = "model";
  j["created"] = created;
  j["owned_by"] = "isthmus";
  j["max_model_len"] = deps.context_tokens;
  return j;
}

void Front::Impl::models(HttpResponder& responder) const {
  Json body;
  body["object"] = "list";
  body["data"] = Json::array();
  for (const std::string& name : options.model_names) body["data"].push_back(model_json(name));
  send_json(responder, 200, body);
}

void Front::Impl::model(const std::string& name, HttpResponder& responder) const {
  const auto& names = options.model_names;
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return send_json(responder, 200, model_json(name));
  }
  send_api_error(responder,
                 {Status(Code::kNotFound, "no such model: " + name), "model", "model_not_found", 0});
}

void Front::Impl::projection(HttpResponder& responder) const {
  if (deps.projection.empty()) {
    const Status status(Code::kUnsupported, "projection: this decode engine publishes no projection pack");
    return send_api_error(responder, {status, {}, {}, 0});
  }
  const std::string_view pack(reinterpret_cast<const char*>(deps.projection.data()), deps.projection.size());
  const Status sent = responder.send(200, "application/octet-stream", pack);
  if (!sent.ok()) log_debug("front: projection not sent: {}", sent.to_string());
}

Front::Front(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Front::~Front() {
  stop();
}

Result<std::unique_ptr<Front>> Front::start(FrontOptions options, FrontDeps deps) {
  if (options.model_names.empty()) return Status(Code::kInvalidArgument, "front: expected a model name");
  if (options.max_requests < 1)
    return Status(Code::kInvalidArgument, "front: expected max_requests of 1 or more");
  if (deps.context_tokens < 2)
    return Status(Code::kInvalidArgument, "front: expected a context of 2 tokens or more");
  options.http.max_handlers = options.max_requests + kSpareHandlers;
  auto impl = std::make_unique<Impl>(std::move(options), std::move(deps));
  Impl* raw = impl.get();
  ASSIGN_OR_RETURN(raw->server,
                   HttpServer::start(raw->options.http, [raw](const HttpRequest& rq, HttpResponder& rp) {
                     raw->handle(rq, rp);
                   }));
  return std::unique_ptr<Front>(new Front(std::move(impl)));
}

uint16_t Front::port() const {
  return impl_->server->port();
}

void Front::stop() {
  impl_->server->stop();
}

}  // namespace isthmus
