// SPDX-License-Identifier: Apache-2.0
// isthmus ask: one question to a running server, the answer as it comes, and what the bridge did in words.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/command.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/json.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace isthmus {
namespace {

struct AskOptions {
  std::string url = "http://127.0.0.1:8012";
  std::string question;
  std::filesystem::path file;
  int max_tokens = 300;
  double temperature = 0;
  bool json = false;
};

struct Answer {
  std::string text;
  std::string finish_reason;
  Json verdict;
  Json usage;
  std::string error;
  std::optional<MonotonicTime> first_token;
};

Result<std::string> request_body(const AskOptions& o) {
  std::string content = o.question;
  if (!o.file.empty()) {
    ASSIGN_OR_RETURN(const std::string text, read_text_file(o.file, 16u << 20));
    content = text + "\n\n" + o.question;
  }
  const Json body = {{"messages", Json::array({{{"role", "user"}, {"content", content}}})},
                     {"max_tokens", o.max_tokens},
                     {"temperature", o.temperature},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  return dump_json(body);
}

// The text that one event adds; empty when it adds none.
std::string piece_of(const Json& choice) {
  const auto delta = choice.find("delta");
  if (delta == choice.end() || !delta->is_object()) return "";
  const auto content = delta->find("content");
  return content != delta->end() && content->is_string() ? content->get<std::string>() : "";
}

void take_choice(const Json& choice, const AskOptions& o, Answer& a) {
  const auto reason = choice.find("finish_reason");
  if (reason != choice.end() && reason->is_string()) a.finish_reason = *reason;
  const std::string piece = piece_of(choice);
  if (piece.empty()) return;
  if (!a.first_token) a.first_token = std::chrono::steady_clock::now();
  a.text += piece;
  if (o.json) return;
  std::fputs(piece.c_str(), stdout);
  std::fflush(stdout);
}

// One SSE item of the reply.
void take(const SseItem& item, const AskOptions& o, Answer& a) {
  if (item.kind == SseItem::Kind::kComment) {
    if (!o.json && item.data.rfind("prefill", 0) == 0) std::fprintf(stderr, "%s\n", item.data.c_str());
    return;
  }
  const auto event = parse_json(item.data, "reply");
  if (!event.ok() || !event->is_object()) return;  // "[DONE]" too
  if (event->contains("error")) a.error = dump_json((*event)["error"]);
  if (event->contains("usage") && (*event)["usage"].is_object()) a.usage = (*event)["usage"];
  const auto choices = event->find("choices");
  if (choices == event->end() || !choices->is_array() || choices->empty()) return;
  if (choices->front().is_object()) take_choice(choices->front(), o, a);
}

Result<Answer> ask(const AskOptions& o, const std::string& body) {
  ASSIGN_OR_RETURN(const HttpClient client, HttpClient::create({}));
  HttpCall call;
  ASSIGN_OR_RETURN(call.url, parse_url(o.url + "/v1/chat/completions"));
  call.method = "POST";
  call.headers.add("Content-Type", "application/json");
  call.body = body;
  call.timeouts.idle_ms = -1;  // a native prefill may be silent for minutes
  Answer a;
  std::string refused;
  SseParser parser;
  int status = 0;
  const auto reply = client.stream(
      call,
      [&](const HttpResponse& head) {
        status = head.status;
        const auto verdict = head.headers.get("X-PD-Bridge");
        if (verdict) {
          if (auto j = parse_json(*verdict, "X-PD-Bridge"); j.ok()) a.verdict = *j;
        }
        return true;
      },
      [&](std::string_view bytes) {
        if (status != 200) {
          refused.append(bytes);
          return true;
        }
        return parser.feed(bytes, [&](SseItem&& item) { take(item, o, a); }).ok();
      });
  if (!reply.ok()) return reply.status();
  if (status != 200)
    return Status(Code::kUnavailable,
                  o.url + " answered " + std::to_string(status) + ": " + refused.substr(0, 500));
  if (!a.error.empty()) return Status(Code::kUnavailable, "the server failed: " + a.error);
  if (a.usage.is_object() && a.usage.contains("bridge")) a.verdict = a.usage["bridge"];
  return a;
}

std::string in_words(const Json& v) {
  if (!v.is_object()) return "the server sent no verdict: not an isthmus server";
  // A server that is not ours may send anything under these names.
  const auto text = [&v](const char* key) {
    const auto found = find_string(v, key, "");
    return found.ok() ? found->value_or("?") : std::string("?");
  };
  const auto number = [&v](const char* key) {
    const auto found = find_double(v, key, "");
    return found.ok() ? found->value_or(0.0) : 0.0;
  };
  const auto count = [&](const char* key) { return std::to_string(static_cast<int64_t>(number(key))); };
  if (v.contains("bridge_error")) return "bridge declined, answered alone: " + text("bridge_error");
  const auto skipped = find_bool(v, "skipped", "");
  if (!skipped.ok() || skipped->value_or(true)) return "answered alone (" + text("why") + ")";
  return "bridged, " + text("verdict") + ": " + count("prefilled") + " tokens read by the prefill engine, " +
         count("blocks") + " blocks in " + std::to_string(number("t_bridge_total")).substr(0, 5) + " s";
}

int run_ask(const AskOptions& o) {
  const auto body = request_body(o);
  if (!body.ok()) return fail(body.status());
  const MonotonicTime start = std::chrono::steady_clock::now();
  const auto answer = ask(o, *body);
  if (!answer.ok()) return fail(answer.status());
  const MonotonicTime end = std::chrono::steady_clock::now();
  const double ttft = seconds_between(start, answer->first_token.value_or(end));
  const Json result = {{"ttft_s", ttft},
                       {"total_s", seconds_between(start, end)},
                       {"finish_reason", answer->finish_reason},
                       {"usage", answer->usage},
                       {"verdict", answer->verdict},
                       {"text", answer->text}};
  if (o.json) {
    std::puts(dump_json(result).c_str());
  } else {
    std::printf("\n");
    std::fprintf(stderr, "first token after %.2f s, %.2f s in all; %s\n", ttft, seconds_between(start, end),
                 in_words(answer->verdict).c_str());
  }
  return 0;
}

}  // namespace

Command add_ask(CLI::App& parent) {
  auto o = std::make_shared<AskOptions>();
  CLI::App* app = parent.add_subcommand("ask", "ask a running server one question");
  app->add_option("question", o->question, "what to ask")->required();
  app->add_option("--file", o->file, "a text to put before the question");
  app->add_option("--url", o->url, "the server")->capture_default_str();
  app->add_option("--max-tokens", o->max_tokens, "length of the answer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app->add_option("--temperature", o->temperature, "0: greedy")
      ->check(finite_range(0.0, 2.0))
      ->capture_default_str();
  app->add_flag("--json", o->json, "one JSON object instead of text");
  return {app, [o] { return run_ask(*o); }};
}

}  // namespace isthmus
