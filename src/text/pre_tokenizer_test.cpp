// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/test_data.h"

namespace isthmus {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const std::vector<SplitRule>& rules, std::string_view text) {
  Result<PreTokenizer> pre = PreTokenizer::create(rules);
  EXPECT_TRUE(pre.ok()) << pre.status().to_string();
  std::vector<std::string_view> pieces;
  const Status status = pre->split(text, pieces);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return Pieces(pieces.begin(), pieces.end());
}

TEST(PreTokenizer, CutsAsTheReferenceDoes) {
  const std::vector<std::pair<std::string, std::vector<SplitRule>>> families = {
      {"gpt2", {SplitRule::kGpt2}},
      {"smollm", {SplitRule::kDigits, SplitRule::kGpt2}},
      {"qwen2", {SplitRule::kQwen2}},
      {"llama3", {SplitRule::kLlama3}},
  };
  const Result<std::string> text = read_text_file(test_data("tokenizer/splits.json"), 4u << 20);
  ASSERT_TRUE(text.ok());
  const Result<Json> golden = parse_json(*text, "splits.json");
  ASSERT_TRUE(golden.ok());
  for (const auto& [name, rules] : families) {
    size_t cases = 0;
    for (const Json& c : (*golden)[name]) {
      EXPECT_EQ(split(rules, c["text"].get<std::string>()), c["pieces"].get<Pieces>())
          << name << " " << dump_ascii(c["text"]);
      ++cases;
    }
    EXPECT_GE(cases, 170u) << name;
  }
}

TEST(PreTokenizer, IllFormedBytesAreTheirOwnPieces) {
  EXPECT_EQ(split({SplitRule::kGpt2}, "ab\x80\xFF cd"), (Pieces{"ab", "\x80\xFF", " cd"}));
  EXPECT_EQ(split({SplitRule::kLlama3}, "caf\xC3"), (Pieces{"caf", "\xC3"}));
  EXPECT_EQ(split({}, "a\xE2\x82z"), (Pieces{"a", "\xE2\x82", "z"}));
}

TEST(PreTokenizer, WithoutRulesTextIsOnePiece) {
  EXPECT_EQ(split({}, "one two 3"), Pieces{"one two 3"});
  EXPECT_EQ(split({}, ""), Pieces{});
}

TEST(PreTokenizer, UnknownRuleIsRefused) {
  EXPECT_EQ(PreTokenizer::create({static_cast<SplitRule>(99)}).status().code(), Code::kUnsupported);
  EXPECT_EQ(split_rule_of_regex("a+"), std::nullopt);
  EXPECT_EQ(split_rule_of_regex(R"(\p{N})"), SplitRule::kDigits);
}

// Whitespace and letters without end, in every rule: the work stays linear and inside the match limit.
TEST(PreTokenizer, LongRunsStayLinear) {
  const size_t n = 4u << 20;
  std::string lines(n, ' ');
  for (size_t i = 0; i < n; i += 1000) lines[i] = '\n';
  const std::vector<std::string> texts = {std::string(n, ' ') + "x", std::string(n, '\n') + "x",
                                          std::string(n, 'a') + "1", std::string(n, '!'), lines + "x"};
  for (const SplitRule rule : {SplitRule::kGpt2, SplitRule::kQwen2, SplitRule::kLlama3}) {
    for (const std::string& text : texts) {
      size_t bytes = 0;
      for (const std::string& piece : split({rule}, text)) bytes += piece.size();
      EXPECT_EQ(bytes, text.size());
    }
  }
}

}  // namespace
}  // namespace isthmus
