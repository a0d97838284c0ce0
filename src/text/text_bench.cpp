// SPDX-License-Identifier: Apache-2.0
// Tokenizer and chat template, on the vocabulary of SmolLM2 and on golden texts: what each request costs
// before and behind the model. Counted by scripts/instruction-counts.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/counted_bench.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/smollm2_test_util.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace isthmus {
namespace {

std::string golden_text(const std::string& name) {
  return read_text_file(test_data(name), 4u << 20).take();
}

Json golden_json(const std::string& name) {
  return parse_json(golden_text(name), name).take();
}

const Tokenizer& smollm2() {
  static const Tokenizer tokenizer = Tokenizer::create(smollm2_spec().take()).take();
  return tokenizer;
}

// Texts of many scripts, code, numbers and control tokens.
std::string mixed_text() {
  const Json golden = golden_json("tokenizer/smollm2.json");
  std::string text;
  for (const Json& c : golden["cases"]) text += c["text"].get<std::string>();
  return text;
}

// English words, mostly one token each.
std::string prose(size_t bytes) {
  constexpr std::array<const char*, 24> kWords = {
      "the",   "bridge",  "carries",  "finished", "rows",    "from",      "one",    "engine",
      "to",    "another", "because",  "reading",  "a",       "long",      "prompt", "takes",
      "time,", "and",     "writing.", "It's",     "memory-", "bandwidth", "1,024",  "(tokens)\n"};
  std::string text;
  uint32_t state = 1;
  while (text.size() < bytes) {
    state = state * 1664525u + 1013904223u;
    text += kWords[(state >> 16) % kWords.size()];
    text += ' ';
  }
  return text;
}

// What a start does with a vocabulary of 49,152 tokens. Once, because the tokenizer takes its spec over.
void create_tokenizer(benchmark::State& state) {
  TokenizerSpec spec = smollm2_spec().take();
  std::unique_ptr<Tokenizer> tokenizer;
  counted_iterations(
      state, [&] { tokenizer = std::make_unique<Tokenizer>(Tokenizer::create(std::move(spec)).take()); });
  ISTHMUS_CHECK(tokenizer->vocab_size() == 49152);
}
BENCHMARK(create_tokenizer)->Iterations(1);

void read_tokenizer_json(benchmark::State& state) {
  const std::string json = golden_text("tokenizer/family_llama3.json");
  counted_iterations(state, [&] { ISTHMUS_CHECK(tokenizer_spec_from_json(json).ok()); });
}
BENCHMARK(read_tokenizer_json)->Iterations(10);

void encode(benchmark::State& state, const std::string& text) {
  const Tokenizer& tokenizer = smollm2();
  size_t tokens = 0;
  counted_iterations(state, [&] { tokens = tokenizer.encode_rendered(text)->size(); });
  ISTHMUS_CHECK(tokens > 0);
}
void encode_prose(benchmark::State& state) {
  encode(state, prose(32'000));
}
BENCHMARK(encode_prose)->Iterations(1);
void encode_mixed(benchmark::State& state) {
  encode(state, mixed_text());
}
BENCHMARK(encode_mixed)->Iterations(1);
// One piece for the merge loop.
void encode_long_word(benchmark::State& state) {
  std::string word;
  for (size_t i = 0; word.size() < 8'000; ++i) word += static_cast<char>('a' + (i * i + i / 7) % 26);
  encode(state, word);
}
BENCHMARK(encode_long_word)->Iterations(1);

// Token by token, with a stop string that nearly matches now and then, as the front streams an answer.
void stream_text(benchmark::State& state) {
  const std::string text = mixed_text();
  const std::vector<TokenId> ids = smollm2().encode(text).take();
  counted_iterations(state, [&] {
    Detokenizer detokenizer(smollm2(), true);
    StopMatcher stops({"the end of it", "\n\n\n\nUser:"});
    size_t bytes = 0;
    for (const TokenId id : ids) bytes += stops.feed(detokenizer.feed(id)).size();
    ISTHMUS_CHECK(bytes > 0 && !stops.stopped());
  });
}
BENCHMARK(stream_text)->Iterations(3);

// The parser, and the conversations with which a template is asked what it can read.
void parse_template(benchmark::State& state) {
  const std::string source = golden_text("templates/hermes_calls.jinja");
  counted_iterations(state, [&] { ISTHMUS_CHECK(ChatTemplate::parse(source).ok()); });
}
BENCHMARK(parse_template)->Iterations(3);

void render_tools(benchmark::State& state) {
  const ChatTemplate chat =
      ChatTemplate::parse(golden_text("templates/hermes_calls.jinja"), {"<s>", "</s>", {}}).take();
  const Json all = golden_json("templates/conversations.json");
  ChatInput input;
  input.messages = all["tool_call"]["messages"];
  input.tools = all["TOOLS"];
  counted_iterations(state, [&] { ISTHMUS_CHECK(chat.render(input).ok()); });
}
BENCHMARK(render_tools)->Iterations(20);

void render_long_conversation(benchmark::State& state) {
  const ChatTemplate chat = ChatTemplate::parse(golden_text("templates/smollm2.jinja")).take();
  ChatInput input;
  for (int turn = 0; turn < 40; ++turn) {
    Json message;
    message["role"] = turn % 2 == 0 ? "user" : "assistant";
    message["content"] = prose(800);
    input.messages.push_back(std::move(message));
  }
  counted_iterations(state, [&] { ISTHMUS_CHECK(chat.render(input).ok()); });
}
BENCHMARK(render_long_conversation)->Iterations(10);

}  // namespace
}  // namespace isthmus
