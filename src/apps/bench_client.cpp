// SPDX-License-Identifier: Apache-2.0
#include "apps/bench_client.h"

#include "net/sse.h"

namespace isthmus {
namespace {

constexpr size_t kShownErrorBytes = 500;

int64_t int_at(const Json& object, const char* key, int64_t fallback) {
  const auto v = object.find(key);
  return v != object.end() && v->is_number_integer() ? v->get<int64_t>() : fallback;
}

std::string outcome_of(const Json& v) {
  if (!v.is_object()) return "";
  if (v.contains("bridge_error")) return "declined";
  if (v.value("skipped", false)) return "skipped: " + v.value("why", std::string("?"));
  const std::string verdict = v.value("verdict", std::string("?"));
  return verdict.substr(0, verdict.find(' '));
}

void take_usage(const Json& usage, TimedReply& out) {
  out.prompt_tokens = int_at(usage, "prompt_tokens", 0);
  out.completion_tokens = int_at(usage, "completion_tokens", 0);
  if (const auto d = usage.find("prompt_tokens_details"); d != usage.end() && d->is_object())
    out.cached_tokens = int_at(*d, "cached_tokens", 0);
  if (const auto d = usage.find("isthmus"); d != usage.end() && d->is_object())
    out.computed_tokens = int_at(*d, "computed_tokens", -1);
  if (const auto bridge = usage.find("bridge"); bridge != usage.end()) out.outcome = outcome_of(*bridge);
}

// One event of the stream; an error text when it is one.
std::string take_event(const SseItem& item, TimedReply& out) {
  if (item.kind != SseItem::Kind::kEvent) return "";
  const auto event = parse_json(item.data, "reply");
  if (!event.ok() || !event->is_object()) return "";  // "[DONE]" too
  if (const auto error = event->find("error"); error != event->end()) return dump_json(*error);
  if (const auto usage = event->find("usage"); usage != event->end() && usage->is_object())
    take_usage(*usage, out);
  const auto choices = event->find("choices");
  if (choices == event->end() || !choices->is_array() || choices->empty()) return "";
  const Json& choice = choices->front();
  const auto text = choice.find("text");
  if (text != choice.end() && text->is_string() && !text->get_ref<const std::string&>().empty())
    out.chunks.push_back(std::chrono::steady_clock::now());
  if (const auto reason = choice.find("finish_reason"); reason != choice.end() && reason->is_string())
    out.finish_reason = *reason;
  return "";
}

// The stream of one call, read as it comes.
struct Reader {
  TimedReply reply;
  SseParser parser;
  int status = 0;
  std::string refused;
  std::string error;

  bool take_head(const HttpResponse& head) {
    status = head.status;
    if (const auto verdict = head.headers.get("X-PD-Bridge")) {
      if (const auto j = parse_json(*verdict, "X-PD-Bridge"); j.ok()) reply.outcome = outcome_of(*j);
    }
    return true;
  }
  bool take_body(std::string_view bytes) {
    if (status != 200) {
      refused.append(bytes);
      return refused.size() < kShownErrorBytes;
    }
    const Status s = parser.feed(bytes, [this](SseItem&& item) {
      if (const std::string e = take_event(item, reply); !e.empty() && error.empty()) error = e;
    });
    if (!s.ok()) error = s.message();
    return error.empty();
  }
};

}  // namespace

double TimedReply::decode_tok_s() const {
  const double seconds = seconds_between(chunks.front(), chunks.back());
  return seconds > 0 ? static_cast<double>(completion_tokens - 1) / seconds : 0;
}

Result<BenchClient> BenchClient::connect(const std::string& url, std::stop_token stop) {
  ASSIGN_OR_RETURN(HttpClient http, HttpClient::create({}));
  BenchClient out(std::move(http), url, std::move(stop));
  HttpCall call;
  call.stop = out.stop_;
  ASSIGN_OR_RETURN(call.url, parse_url(url + "/v1/models"));
  ASSIGN_OR_RETURN(const HttpResponse reply, out.client_.request(call));
  const auto models = parse_json(reply.body, "/v1/models");
  const Status other(Code::kUnavailable, url + "/v1/models: expected a list of models, got status " +
                                             std::to_string(reply.status));
  if (reply.status != 200 || !models.ok() || !models->is_object()) return other;
  const auto data = models->find("data");
  if (data == models->end() || !data->is_array() || data->empty()) return other;
  ASSIGN_OR_RETURN(out.model_, get_string(data->front(), "id", "/v1/models"));
  return out;
}

Result<TimedReply> BenchClient::complete(const std::vector<TokenId>& prompt, int64_t max_tokens) const {
  HttpCall call;
  ASSIGN_OR_RETURN(call.url, parse_url(url_ + "/v1/completions"));
  call.method = "POST";
  call.headers.add("Content-Type", "application/json");
  call.headers.add("X-Isthmus-Debug", "1");
  call.body = dump_json({{"model", model_},
                         {"prompt", prompt},
                         {"max_tokens", max_tokens},
                         {"temperature", 0},
                         {"ignore_eos", true},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}}});
  call.stop = stop_;
  call.timeouts.idle_ms = -1;  // a prefill may be silent for minutes
  Reader reader;
  reader.reply.sent = std::chrono::steady_clock::now();
  const auto ended = client_.stream(
      call, [&](const HttpResponse& head) { return reader.take_head(head); },
      [&](std::string_view bytes) { return reader.take_body(bytes); });
  if (!ended.ok()) return ended.status();
  if (reader.status != 200) {
    return Status(Code::kUnavailable, url_ + " answered " + std::to_string(reader.status) + ": " +
                                          reader.refused.substr(0, kShownErrorBytes));
  }
  if (!reader.error.empty()) return Status(Code::kUnavailable, "the server failed: " + reader.error);
  if (reader.reply.chunks.empty() || reader.reply.prompt_tokens == 0)
    return Status(Code::kUnavailable, url_ + ": expected a stream with text and usage, got none");
  return std::move(reader.reply);
}

}  // namespace isthmus
