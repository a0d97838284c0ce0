// SPDX-License-Identifier: Apache-2.0
// What both forms of a reply (reply_whole.h, reply_stream.h) know about their request. A value filled by
// generation.cpp; borrows what outlives the request.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "flow/verdict.h"
#include "front/openai_request.h"
#include "net/http_server.h"
#include "text/tokenizer.h"

namespace isthmus {

struct ReplyContext {
  ReplyContext(const Tokenizer& t, HttpResponder& r) : tokenizer(t), responder(r) {}

  const Tokenizer& tokenizer;
  HttpResponder& responder;
  std::stop_token cancel;  // the client is gone
  RequestKind kind = RequestKind::kChat;
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // Unix time
  std::string model;    // canonical name
  int64_t prompt_tokens = 0;
  std::vector<std::string> stop;
  SamplingParams sampling;
  bool include_usage = false;  // in a stream
  bool bridge_only = false;    // reply with the verdict alone
  bool debug = false;          // add usage.isthmus
  HttpHeaders headers;         // of every form of reply, errors included
  Verdict unrouted;            // the verdict if the request fails before it has one
};

}  // namespace isthmus
