// SPDX-License-Identifier: Apache-2.0
// Any bytes as text for a small vocabulary of each family: decode(encode(text)) is the text, the streamed
// text is its lossy form, no control token comes out of unparsed text, and stop strings are never released.
#include <array>
#include <cstdint>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace isthmus {
namespace {

Tokenizer make(SplitRule rule, bool nfc) {
  TokenizerSpec spec;
  for (int b = 0; b < 256; ++b)
    spec.tokens.push_back(byte_alphabet_encode(std::string(1, static_cast<char>(b))));
  const std::array<std::pair<const char*, const char*>, 9> pairs = {{{"a", "b"},
                                                                     {"ab", "ab"},
                                                                     {"\xC3", "\xA9"},
                                                                     {" ", "a"},
                                                                     {" ", " "},
                                                                     {"\n", "\n"},
                                                                     {"\xF0", "\x9F"},
                                                                     {"1", "1"},
                                                                     {"'", "s"}}};
  for (const auto& [left, right] : pairs) {
    spec.merges.push_back(byte_alphabet_encode(left) + " " + byte_alphabet_encode(right));
    spec.tokens.push_back(byte_alphabet_encode(std::string(left) + right));
  }
  spec.added.push_back({.id = static_cast<TokenId>(spec.tokens.size()), .special = true});
  spec.tokens.push_back("<e>");
  spec.added.push_back({.id = static_cast<TokenId>(spec.tokens.size()), .normalized = true});
  spec.tokens.push_back("<t>");
  spec.split_rules = {rule};
  spec.nfc = nfc;
  return Tokenizer::create(std::move(spec)).take();
}

std::vector<TokenId> encode(const Tokenizer& t, std::string_view text, bool parse_special) {
  return t.encode(text, {.parse_special = parse_special}).take();
}

void check(const Tokenizer& t, std::string_view text) {
  for (const bool parse : {false, true}) {
    const std::vector<TokenId> ids = encode(t, text, parse);
    ISTHMUS_CHECK(t.decode(ids, false) == text);
    Detokenizer detokenizer(t, false);
    StopMatcher matcher({"ab", "\n\n", "1"});
    std::string streamed;
    std::string released;
    for (const TokenId id : ids) {
      ISTHMUS_CHECK(parse || !t.is_special(id));
      const std::string part = detokenizer.feed(id);
      ISTHMUS_CHECK(utf8_valid_prefix(part) == part.size());
      streamed += part;
      released += matcher.feed(part);
    }
    const std::string tail = detokenizer.flush();
    streamed += tail;
    released += matcher.feed(tail);
    released += matcher.flush();
    ISTHMUS_CHECK(streamed == utf8_lossy(text));
    ISTHMUS_CHECK(streamed.starts_with(released + matcher.matched()));
    for (const char* stop : {"ab", "\n\n", "1"}) ISTHMUS_CHECK(released.find(stop) == std::string::npos);
    ISTHMUS_CHECK(matcher.stopped() || released == streamed);
  }
}

}  // namespace
}  // namespace isthmus

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isthmus;
  static const std::array<Tokenizer, 4> kExact = {
      make(SplitRule::kGpt2, false), make(SplitRule::kQwen2, false), make(SplitRule::kLlama3, false),
      make(SplitRule::kDigits, false)};
  static const Tokenizer kNormalizing = make(SplitRule::kQwen2, true);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Tokenizer& t : kExact) check(t, text);
  (void)kNormalizing.decode(encode(kNormalizing, text, true), true);
  return 0;
}
