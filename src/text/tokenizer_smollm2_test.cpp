// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>

#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"
#include "text/detokenizer.h"
#include "text/smollm2_test_util.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace isthmus {
namespace {

const std::filesystem::path kData = test_data("tokenizer");

const Tokenizer& smollm2() {
  static const Tokenizer tokenizer = Tokenizer::create(smollm2_spec().take()).take();
  return tokenizer;
}

std::vector<TokenId> encode(std::string_view text, bool parse_special = false) {
  Result<std::vector<TokenId>> ids = smollm2().encode(text, {.parse_special = parse_special});
  EXPECT_TRUE(ids.ok()) << ids.status().to_string();
  return ids.ok() ? *ids : std::vector<TokenId>{};
}

TEST(TokenizerSmollm2, EqualsTheReferenceOnEveryCase) {
  const Result<std::string> text = read_text_file(kData / "smollm2.json", 4u << 20);
  ASSERT_TRUE(text.ok());
  const Result<Json> golden = parse_json(*text, "smollm2.json");
  ASSERT_TRUE(golden.ok());
  size_t cases = 0;
  for (const Json& c : (*golden)["cases"]) {
    const auto source = c["text"].get<std::string>();
    const auto expected = c["ids"].get<std::vector<TokenId>>();
    ASSERT_EQ(encode(source, true), expected) << dump_ascii(c["text"]);
    ASSERT_EQ(smollm2().decode(expected, false), source) << dump_ascii(c["text"]);
    Detokenizer detokenizer(smollm2(), false);
    std::string streamed;
    for (const TokenId id : expected) {
      const std::string part = detokenizer.feed(id);
      ASSERT_EQ(utf8_valid_prefix(part), part.size());
      streamed += part;
    }
    ASSERT_EQ(streamed + detokenizer.flush(), source);
    ++cases;
  }
  EXPECT_EQ(cases, 340u);
}

TEST(TokenizerSmollm2, HasTheFactsOfTheModelFile) {
  EXPECT_EQ(smollm2().vocab_size(), 49152u);
  EXPECT_EQ(smollm2().end_ids(), (std::vector<TokenId>{0, 2}));
  EXPECT_TRUE(smollm2().is_end(2) && smollm2().is_special(2) && smollm2().is_special(16));
  EXPECT_FALSE(smollm2().is_end(1) || smollm2().is_special(17) || smollm2().is_special(-1));
  EXPECT_EQ(smollm2().find_token("<|im_start|>"), 1);
  EXPECT_EQ(smollm2().find_token("\u0120the"), encode(" the").at(0));
  EXPECT_EQ(smollm2().find_token("no such token"), std::nullopt);
  EXPECT_EQ(smollm2().token_bytes(253), " a");
  EXPECT_EQ(smollm2().token_bytes(49152), "");
  EXPECT_EQ(smollm2().token_bytes(-1), "");
}

TEST(TokenizerSmollm2, ControlTokensInUserTextAreTextUnlessParsed) {
  const std::string text = "a<|im_end|>\n<|im_start|>system";
  const std::vector<TokenId> parsed = encode(text, true);
  EXPECT_EQ(parsed.at(1), 2);
  EXPECT_EQ(parsed.at(3), 1);
  const std::vector<TokenId> plain = encode(text, false);
  for (const TokenId id : plain) EXPECT_FALSE(smollm2().is_special(id)) << id;
  EXPECT_EQ(smollm2().decode(plain, true), text);
  EXPECT_EQ(smollm2().decode(parsed, true), "a\nsystem");
}

TEST(TokenizerSmollm2, BytesWithoutATokenAreDropped) {
  EXPECT_EQ(smollm2().decode(encode("a\x04"
                                    "b"),
                             false),
            "ab");
  EXPECT_EQ(smollm2().decode(encode("a\x05"
                                    "b"),
                             false),
            "a\x05"
            "b");
}

TEST(TokenizerSmollm2, IllFormedUtf8RoundTrips) {
  for (const std::string text :
       {"\x80", "caf\xC3", "\xE2\x82 x", "\xF0\x9F\x98", "a\x80\x81 b", "\xED\xA0\x80",
        "12\xBF"
        "34"}) {
    EXPECT_EQ(smollm2().decode(encode(text), false), text);
  }
}

// 100 KB without a boundary. A quadratic merge loop needs minutes for one of them.
TEST(TokenizerSmollm2, OneHugeWordIsNotQuadratic) {
  const auto start = std::chrono::steady_clock::now();
  std::string mixed;
  for (size_t i = 0; mixed.size() < 100'000; ++i) mixed += static_cast<char>('a' + (i * i + i / 7) % 26);
  for (const std::string& word :
       {std::string(100'000, 'a'), std::string(100'000, ' '), std::string(100'000, '\n'), mixed}) {
    EXPECT_EQ(smollm2().decode(encode(word), false), word);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace isthmus
