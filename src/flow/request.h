// SPDX-License-Identifier: Apache-2.0
// A request after the front has parsed, rendered and tokenized it, and the sink that its reply goes to. The
// front implements ReplySink and calls a RequestHandler (the bridge's serve_request); both run on the
// request's own thread.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "flow/engine.h"
#include "flow/verdict.h"

namespace isthmus {

struct Request {
  std::string id;
  std::vector<TokenId> ids;  // the rendered prompt, T >= 1
  SamplingParams sampling;
  int64_t max_tokens = 0;  // 0: to the end of the context
  std::vector<TokenId> stop_tokens;
  bool stream = false;
  bool bridge_only = false;  // X-PD-Bridge-Only: run the bridge, do not generate
  std::stop_token cancel;    // fires when the client is gone
};

// Calls come in this order, all from one thread: begin_pending? progress* begin (token* finish | fail), or
// fail alone.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // The bridge takes longer than the client should wait silently: start a stream now. Only for stream = true.
  virtual void begin_pending(const Verdict& so_far) = 0;
  virtual void progress(int64_t done_tokens, int64_t total_tokens) = 0;
  virtual void begin(const Verdict& final_verdict) = 0;
  virtual bool token(const TokenEvent& event) = 0;  // false: stop text found, or the client is gone
  virtual void finish(const GenerateStats& stats) = 0;
  virtual void fail(const Status& why) = 0;
};

class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  virtual void serve(const Request& request, ReplySink& reply) = 0;
};

}  // namespace isthmus
