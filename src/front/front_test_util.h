// SPDX-License-Identifier: Apache-2.0
// For front's tests only: a front on a free loopback port over a handler that plays a script, with a
// tokenizer whose ids 0..255 are bytes and whose other tokens are the pieces that the tests need.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "front/front.h"
#include "net/http_client.h"
#include "net/http_test_util.h"
#include "text/byte_alphabet.h"

namespace isthmus {

inline constexpr int64_t kTestContext = 200;

// Ids 256 and up, in this order; <bos> and <end> are control tokens.
inline const std::vector<std::string>& test_pieces() {
  static const std::vector<std::string> pieces = {"Hello",    " world",   "EN",           "D_",          "OF",
                                                  "\xF0\x9F", "\x98\x80", "\x9F\x98\x80", "\xF0\x9F\x98"};
  return pieces;
}

inline TokenId piece(std::string_view text) {
  if (text.size() == 1) return static_cast<unsigned char>(text[0]);
  const auto& all = test_pieces();
  const auto at = std::find(all.begin(), all.end(), text);
  EXPECT_NE(at, all.end());
  return static_cast<TokenId>(256 + (at - all.begin()));
}

inline TokenId end_token() {
  return static_cast<TokenId>(256 + test_pieces().size() + 1);
}

inline Tokenizer test_tokenizer() {
  TokenizerSpec spec;
  for (int b = 0; b < 256; ++b) {
    spec.tokens.push_back(byte_alphabet_encode(std::string(1, static_cast<char>(b))));
  }
  for (const std::string& p : test_pieces()) spec.tokens.push_back(byte_alphabet_encode(p));
  const auto bos = static_cast<TokenId>(spec.tokens.size());
  spec.tokens.insert(spec.tokens.end(), {"<bos>", "<end>"});
  spec.added = {{.id = bos, .special = true}, {.id = bos + 1, .special = true}};
  spec.split_rules = {SplitRule::kGpt2};
  spec.bos_id = bos;
  spec.add_bos = true;
  spec.end_ids = {bos + 1};
  auto tokenizer = Tokenizer::create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  return tokenizer.take();
}

inline constexpr const char* kTestTemplate =
    "<bos>{% for m in messages %}{{ m.role }}:{{ m.content }}<end>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

class ScriptedHandler final : public RequestHandler {
 public:
  using Script = std::function<void(const Request&, ReplySink&)>;
  explicit ScriptedHandler(Script script) : script_(std::move(script)) {}
  void serve(const Request& request, ReplySink& reply) override { script_(request, reply); }

 private:
  Script script_;
};

inline Verdict short_verdict() {
  Verdict v;
  v.tokens = 9;
  v.why = "short";
  return v;
}

inline void play_tokens(const std::vector<std::string>& pieces, ReplySink& reply,
                        FinishReason finish = FinishReason::kStop) {
  for (const std::string& p : pieces) {
    if (!reply.token({piece(p), -0.5f, {{piece(p), -0.5f}, {'!', -2}}})) break;
  }
  GenerateStats stats;
  stats.finish = finish;
  stats.cached_tokens = 4;
  stats.computed_tokens = 5;
  stats.first_logits_xxh3 = 0xabc;
  reply.finish(stats);
}

// Begins with short_verdict() and delivers the pieces.
inline ScriptedHandler::Script says(std::vector<std::string> pieces,
                                    FinishReason finish = FinishReason::kStop) {
  return [pieces = std::move(pieces), finish](const Request&, ReplySink& reply) {
    reply.begin(short_verdict());
    play_tokens(pieces, reply, finish);
  };
}

class TestFront {
 public:
  explicit TestFront(ScriptedHandler::Script script, FrontOptions options = FrontOptions(),
                     bool with_template = true)
      : handler_(std::move(script)), client_(HttpClient::create({}).take()) {
    options.http.port = 0;
    if (options.model_names.empty()) options.model_names = {"tiny", "alias/one"};
    FrontDeps deps(handler_, tokenizer_);
    if (with_template) deps.chat_template = &*template_;
    deps.context_tokens = kTestContext;
    deps.end_ids = tokenizer_.end_ids();
    deps.identity = Json{{"digest", "d1"}};
    deps.projection = as_byte_span("pack");
    deps.stats = [] { return Json{{"active", 3}}; };
    auto front = Front::start(std::move(options), std::move(deps));
    EXPECT_TRUE(front.ok()) << front.status().to_string();
    front_ = front.take();
  }

  HttpResponse call(const std::string& method, const std::string& target, const std::string& body = {},
                    const HttpHeaders& headers = {}) {
    HttpCall call;
    call.url = *parse_url("http://127.0.0.1:" + std::to_string(front_->port()) + target);
    call.method = method;
    call.headers = headers;
    call.body = body;
    auto reply = client_.request(call);
    EXPECT_TRUE(reply.ok()) << reply.status().to_string();
    return reply.ok() ? reply.take() : HttpResponse{};
  }
  HttpResponse get(const std::string& target) { return call("GET", target); }
  // `fields` follow a valid "messages" field.
  HttpResponse chat(const std::string& fields = {}, const HttpHeaders& headers = {}) {
    return call("POST", "/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}", headers);
  }
  HttpResponse completion(const std::string& fields = {}) {
    return call("POST", "/v1/completions", R"({"prompt":"hi")" + fields + "}");
  }
  Front& front() { return *front_; }

 private:
  const Tokenizer tokenizer_ = test_tokenizer();
  const Result<ChatTemplate> template_ = ChatTemplate::parse(kTestTemplate);
  ScriptedHandler handler_;
  HttpClient client_;
  std::unique_ptr<Front> front_;
};

inline Json json_of(const HttpResponse& reply) {
  const auto parsed = parse_json(reply.body, "reply");
  EXPECT_TRUE(parsed.ok()) << reply.body;
  return parsed.ok() ? *parsed : Json();
}

// Request ids and time stamps replaced, so that replies compare byte for byte.
inline std::string normalized(std::string body) {
  const auto replace_run = [&body](std::string_view key, std::string_view digits, std::string_view with) {
    size_t at = 0;
    while ((at = body.find(key, at)) != std::string::npos) {
      const size_t begin = at + key.size();
      const size_t end = std::min(body.find_first_not_of(digits, begin), body.size());
      body.replace(at, end - at, std::string(with));
      at += with.size();
    }
  };
  replace_run(R"("id":"chatcmpl-)", "0123456789abcdef", R"("id":"ID)");
  replace_run(R"("id":"cmpl-)", "0123456789abcdef", R"("id":"ID)");
  replace_run(R"("created":)", "0123456789", R"("created":0)");
  return body;
}

}  // namespace isthmus
