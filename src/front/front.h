// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible front door of the decode box: HTTP server, routes, parsing, prompt, replies. apps/
// builds it and owns what FrontDeps borrows, which must outlive it. Each request runs on its own handler
// thread; the handler below (the bridge) blocks it. /health and /stats never wait for a request. Knows
// nothing of prefill, handoff or store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/token.h"
#include "flow/request.h"
#include "front/sse_stream.h"
#include "net/http_server.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isthmus {

inline constexpr uint16_t kFrontPort = 8012;

struct FrontOptions {
  FrontOptions() { http.port = kFrontPort; }

  HttpServerOptions http;  // address, port, TLS, limits; max_handlers is set from max_requests
  std::vector<std::string> allowed_hosts;  // besides loopback names and http.address
  std::vector<std::string> model_names;    // the first is the canonical one, the others are aliases
  std::string token;      // of /v1/identity, /v1/projection and /stats off loopback; empty: refused there
  int max_requests = 64;  // generations at once, waiting ones included; more: 429
  SamplingParams sampling = {.temperature = 0.7};  // of requests that name none
  int64_t completion_max_tokens = 512;             // of text completions that name none
  std::string capture_mode = "project";            // in verdicts of requests that were refused before routing
  SseTimes sse;
};

struct FrontDeps {
  FrontDeps(RequestHandler& h, const Tokenizer& t) : handler(h), tokenizer(t) {}

  RequestHandler& handler;
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template = nullptr;  // null: chat is 501
  int64_t context_tokens = 0;                   // prompt and reply
  std::vector<TokenId> end_ids;                 // generation stops here
  Json identity;                                // reply of /v1/identity
  std::span<const std::byte> projection;        // reply of /v1/projection; empty: 501
  std::function<Json()> stats;                  // any thread, at once
};

class Front {
 public:
  // Errors: kInvalidArgument (no model name, limits), those of HttpServer::start.
  static Result<std::unique_ptr<Front>> start(FrontOptions options, FrontDeps deps);
  ~Front();  // stops

  uint16_t port() const;
  // Cancels running requests and waits for them. Idempotent.
  void stop();

 private:
  struct Impl;
  explicit Front(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isthmus
