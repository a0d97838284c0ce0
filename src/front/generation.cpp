// SPDX-License-Identifier: Apache-2.0
#include "front/generation.h"

#include <algorithm>

#include "base/clock.h"
#include "base/hash.h"
#include "front/prompt.h"
#include "front/reply_error.h"
#include "front/reply_stream.h"
#include "front/reply_whole.h"

namespace isthmus {
namespace {

constexpr size_t kMaxWarnedFields = 16;
constexpr size_t kMaxWarnedName = 64;

bool is_set(const HttpRequest& request, std::string_view header) {
  const auto value = request.headers.get(header);
  return value && (*value == "1" || iequals_ascii(*value, "true"));
}

// A client's field name in a header: letters, digits and a few marks stay.
std::string harmless(std::string_view name) {
  std::string out(name.substr(0, kMaxWarnedName));
  std::replace_if(
      out.begin(), out.end(),
      [](char c) {
        const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        return !word && c != '_' && c != '-' && c != '.';
      },
      '?');
  return out;
}

HttpHeaders warning_of(const std::vector<std::string>& ignored) {
  HttpHeaders out;
  if (ignored.empty()) return out;
  std::string list;
  for (size_t i = 0; i < std::min(ignored.size(), kMaxWarnedFields); ++i) {
    list += (i > 0 ? ", " : "") + harmless(ignored[i]);
  }
  if (ignored.size() > kMaxWarnedFields) list += ", and more";
  out.add("Warning", "299 isthmus \"ignored fields: " + list + "\"");
  return out;
}

void refuse(HttpResponder& responder, const FrontOptions& options, const ApiError& error,
            const HttpHeaders& headers = {}) {
  send_api_error(responder, error, with_verdict(headers, refused_verdict(options, error)));
}

// Whatever limit a prompt runs into while it is rendered and tokenized, it is the prompt that is wrong.
ApiError prompt_error(const Status& status, RequestKind kind) {
  ApiError error{status, kind == RequestKind::kChat ? "messages" : "prompt", {}, 0};
  const std::string where = status.message().substr(0, status.message().find(':'));
  if (where.starts_with("messages[") || where == "continue_final_message") error.param = where;
  if (status.code() == Code::kResourceExhausted) error.http_status = 400;
  if (status.message().find("the context of") != std::string::npos) error.code = "context_length_exceeded";
  return error;
}

Request flow_request(const OpenAiRequest& parsed, std::vector<TokenId> ids, const HttpRequest& http,
                     const FrontDeps& deps) {
  Request rq;
  rq.id = (parsed.kind == RequestKind::kChat ? "chatcmpl-" : "cmpl-") + random_hex(12);
  rq.ids = std::move(ids);
  rq.sampling = parsed.sampling;
  rq.max_tokens = parsed.max_tokens;
  if (!parsed.ignore_eos) rq.stop_tokens = deps.end_ids;
  rq.bridge_only = is_set(http, "X-PD-Bridge-Only");
  rq.stream = parsed.stream && !rq.bridge_only;
  rq.cancel = http.cancelled;
  return rq;
}

ReplyContext reply_context(const OpenAiRequest& parsed, const Request& rq, const HttpRequest& http,
                           HttpResponder& responder, const FrontOptions& options, const FrontDeps& deps) {
  ReplyContext c(deps.tokenizer, responder);
  c.cancel = rq.cancel;
  c.kind = parsed.kind;
  c.id = rq.id;
  c.created =
      std::chrono::duration_cast<std::chrono::seconds>(SystemClock::instance().wall_now().time_since_epoch())
          .count();
  c.model = options.model_names.front();
  c.prompt_tokens = static_cast<int64_t>(rq.ids.size());
  c.stop = parsed.stop;
  c.sampling = parsed.sampling;
  c.include_usage = parsed.include_usage;
  c.bridge_only = rq.bridge_only;
  c.debug = is_set(http, "X-Isthmus-Debug");
  c.headers = warning_of(parsed.ignored_fields);
  c.unrouted.tokens = c.prompt_tokens;
  c.unrouted.mode = options.capture_mode;
  c.unrouted.why = "not routed";
  return c;
}

}  // namespace

Verdict refused_verdict(const FrontOptions& options, const ApiError& error) {
  Verdict v;
  v.mode = options.capture_mode;
  v.why = "refused: " + std::string(code_name(error.status.code()));
  return v;
}

void serve_generation(RequestKind kind, const HttpRequest& http, HttpResponder& responder,
                      const FrontOptions& options, const FrontDeps& deps) {
  const RequestRules rules{options.sampling, options.model_names, options.completion_max_tokens};
  const ParsedRequest parsed = parse_openai_request(http.body, kind, rules);
  if (parsed.error) return refuse(responder, options, *parsed.error);

  const PromptTools tools{deps.tokenizer, deps.chat_template, deps.context_tokens};
  Result<std::vector<TokenId>> ids = prompt_ids(parsed.request, tools);
  if (!ids.ok()) return refuse(responder, options, prompt_error(ids.status(), kind));

  const Request rq = flow_request(parsed.request, ids.take(), http, deps);
  ReplyContext context = reply_context(parsed.request, rq, http, responder, options, deps);
  if (rq.stream) {
    StreamReply reply(std::move(context), options.sse);
    deps.handler.serve(rq, reply);
  } else {
    WholeReply reply(std::move(context));
    deps.handler.serve(rq, reply);
  }
}

}  // namespace isthmus
