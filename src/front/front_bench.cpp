// SPDX-License-Identifier: Apache-2.0
// The front's work on one request and on each token of its answer, without sockets. Counted by
// scripts/instruction-counts.
#include <string>
#include <vector>

#include "base/counted_bench.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"
#include "front/generated_text.h"
#include "front/openai_request.h"
#include "front/prompt.h"
#include "front/reply_json.h"
#include "text/tokenizer_json.h"

namespace isthmus {
namespace {

const std::vector<std::string> kModels = {"tiny", "alias/one"};
const RequestRules kRules{.sampling = {.temperature = 0.7}, .models = kModels};

Json golden_json(const std::string& name) {
  return parse_json(read_text_file(test_data(name), 4u << 20).take(), name).take();
}

// Twelve messages with tools, about 8 KB, as a chat client sends them. The seed is named: a missing one is
// drawn at random.
std::string chat_body() {
  Json messages = Json::array();
  const auto say = [&messages](const char* role, const std::string& content) {
    Json message;
    message["role"] = role;
    message["content"] = content;
    messages.push_back(std::move(message));
  };
  say("system", "Be brief.\nBe kind, and say when you do not know.");
  for (int turn = 0; turn < 11; ++turn) {
    std::string text;
    for (int line = 0; line < 10; ++line) {
      text += "In turn " + std::to_string(turn) + " they said \"line " + std::to_string(line) +
              "\":\n\tna\u00efve caf\u00e9, \U0001F642, 3.14;";
    }
    say(turn % 2 == 0 ? "user" : "assistant", text);
  }
  Json body;
  body["model"] = kModels.front();
  body["messages"] = std::move(messages);
  body["tools"] = golden_json("templates/conversations.json")["TOOLS"];
  body["temperature"] = 0.2;
  body["top_p"] = 0.95;
  body["seed"] = 7;
  body["max_tokens"] = 256;
  body["stop"] = Json::array({"\nUser:", "<end>"});
  body["stream"] = true;
  body["stream_options"]["include_usage"] = true;
  body["user"] = "somebody";
  return dump_json(body);
}

void parse_chat(benchmark::State& state) {
  const std::string body = chat_body();
  ISTHMUS_CHECK(body.size() > 7'000 && body.size() < 9'000);
  counted_iterations(state,
                     [&] { ISTHMUS_CHECK(!parse_openai_request(body, RequestKind::kChat, kRules).error); });
}
BENCHMARK(parse_chat)->Iterations(20);

// A prompt of token ids.
void parse_completion_ids(benchmark::State& state) {
  Json body;
  body["prompt"] = Json::array();
  for (int i = 0; i < 4'096; ++i) body["prompt"].push_back(i * 11 % 49'152);
  body["seed"] = 7;
  const std::string text = dump_json(body);
  counted_iterations(
      state, [&] { ISTHMUS_CHECK(!parse_openai_request(text, RequestKind::kCompletion, kRules).error); });
}
BENCHMARK(parse_completion_ids)->Iterations(5);

Tokenizer small_tokenizer() {
  const std::string json = read_text_file(test_data("tokenizer/family_smollm.json"), 4u << 20).take();
  return Tokenizer::create(tokenizer_spec_from_json(json).take()).take();
}

// From the parsed request to ids: template and tokenizer.
void chat_prompt(benchmark::State& state) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string source = read_text_file(test_data("templates/hermes_calls.jinja"), 1u << 20).take();
  const ChatTemplate chat_template = ChatTemplate::parse(source, {"<s>", "</s>", {}}).take();
  const PromptTools tools{tokenizer, &chat_template, 1 << 20};
  const ParsedRequest parsed = parse_openai_request(chat_body(), RequestKind::kChat, kRules);
  ISTHMUS_CHECK(!parsed.error);
  counted_iterations(state, [&] { ISTHMUS_CHECK(prompt_ids(parsed.request, tools)->size() > 1'000); });
}
BENCHMARK(chat_prompt)->Iterations(2);

class NoResponder final : public HttpResponder {
 public:
  Status send(int, std::string_view, std::string_view, const HttpHeaders&) override { return {}; }
  Status begin_stream(int, std::string_view, const HttpHeaders&) override { return {}; }
  Status write(std::string_view) override { return {}; }
  Status end() override { return {}; }
};

// Each token as a chunk of a stream. StreamReply does the same, but its heartbeat is a thread that looks at
// the clock.
void stream_chunks(benchmark::State& state) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::vector<TokenId> ids = tokenizer.encode("An answer of some words, one after the other.").take();
  NoResponder responder;
  ReplyContext context(tokenizer, responder);
  context.id = "chatcmpl-0123456789abcdef01234567";
  context.created = 1'700'000'000;
  context.model = kModels.front();
  context.stop = {"\nUser:"};
  context.sampling.top_logprobs = state.range(0) != 0 ? 2 : -1;
  counted_iterations(state, [&] {
    GeneratedText text(tokenizer, context.stop, context.sampling.top_logprobs >= 0);
    size_t bytes = 0;
    for (const TokenId id : ids) {
      TokenEvent event{id, -0.5f, {}};
      if (context.sampling.top_logprobs > 0) event.top = {{id, -0.5f}, {5, -2.25f}};
      bytes += dump_json(text_chunk(context, text.feed(event))).size();
    }
    ISTHMUS_CHECK(bytes > 100 * ids.size());
  });
}
BENCHMARK(stream_chunks)->ArgName("scores")->Arg(0)->Arg(1)->Iterations(5);

}  // namespace
}  // namespace isthmus
