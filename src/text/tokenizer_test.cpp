// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "text/byte_alphabet.h"
#include "text/detokenizer.h"
#include "text/nfc.h"
#include "text/utf8.h"

namespace isthmus {
namespace {

// All 256 bytes (id = byte), then the merges "a b" (256) and "ab c" (257), then the added tokens.
constexpr TokenId kBos = 258;
constexpr TokenId kEnd = 259;
constexpr TokenId kTool = 260;

TokenizerSpec small_spec() {
  TokenizerSpec spec;
  for (int b = 0; b < 256; ++b)
    spec.tokens.push_back(byte_alphabet_encode(std::string(1, static_cast<char>(b))));
  spec.tokens.insert(spec.tokens.end(), {"ab", "abc", "<bos>", "<end>", "<tool>", ""});
  spec.merges = {"a b", "ab c"};
  spec.added = {{.id = kTool}, {.id = kBos, .special = true}, {.id = kEnd, .special = true}};
  spec.split_rules = {SplitRule::kGpt2};
  spec.bos_id = kBos;
  spec.end_ids = {kEnd};
  return spec;
}

Tokenizer make(const TokenizerSpec& spec) {
  Result<Tokenizer> t = Tokenizer::create(spec);
  EXPECT_TRUE(t.ok()) << t.status().to_string();
  return t.take();
}

using Ids = std::vector<TokenId>;

TEST(Tokenizer, MergesInsidePiecesOnly) {
  const Tokenizer t = make(small_spec());
  EXPECT_EQ(t.encode("abc").take(), (Ids{257}));
  EXPECT_EQ(t.encode("xab").take(), (Ids{'x', 256}));
  EXPECT_EQ(t.encode("ab c").take(), (Ids{256, ' ', 'c'}));
  EXPECT_EQ(t.encode("").take(), Ids{});
}

TEST(Tokenizer, BosIsNeverDoubled) {
  TokenizerSpec spec = small_spec();
  spec.add_bos = true;
  const Tokenizer t = make(spec);
  EXPECT_EQ(t.encode("ab").take(), (Ids{kBos, 256}));
  EXPECT_EQ(t.encode("ab", {.add_bos = false}).take(), (Ids{256}));
  EXPECT_EQ(t.encode("").take(), (Ids{kBos}));
  EXPECT_EQ(t.encode_rendered("ab").take(), (Ids{kBos, 256}));
  EXPECT_EQ(t.encode_rendered("<bos>ab").take(), (Ids{kBos, 256}));
  EXPECT_EQ(t.encode_rendered("<bos>").take(), (Ids{kBos}));
  EXPECT_EQ(t.encode("<bos>ab").take().front(), kBos);  // its own; the text's one is text
  EXPECT_EQ(t.encode("<bos>ab").take().at(1), '<');

  const Tokenizer without = make(small_spec());
  EXPECT_EQ(without.encode_rendered("ab").take(), (Ids{256}));
  EXPECT_EQ(without.encode_rendered("<bos>ab").take(), (Ids{kBos, 256}));
}

TEST(Tokenizer, ParseSpecialDecidesAboutControlTokensOnly) {
  const Tokenizer t = make(small_spec());
  EXPECT_EQ(t.encode("a<end><tool>", {.parse_special = true}).take(), (Ids{'a', kEnd, kTool}));
  EXPECT_EQ(t.encode("a<end><tool>").take(), (Ids{'a', '<', 'e', 'n', 'd', '>', kTool}));
  EXPECT_EQ(t.decode(Ids{'a', kEnd, kTool}, true), "a<tool>");
  EXPECT_EQ(t.decode(Ids{'a', kEnd, kTool, 261, 999, -5}, false), "a<end><tool>");
}

TEST(Tokenizer, StrippingTokensSwallowWhitespace) {
  TokenizerSpec spec = small_spec();
  spec.added[0].lstrip = spec.added[0].rstrip = true;
  const Tokenizer t = make(spec);
  EXPECT_EQ(t.encode("a \u3000<tool>\n b").take(), (Ids{'a', kTool, 'b'}));
  EXPECT_EQ(t.encode(" <tool> <tool>").take(), (Ids{kTool, kTool}));
  EXPECT_EQ(t.encode("\xE3\x80<tool>").take(),
            (Ids{0xE3, 0x80, kTool}));  // not whitespace, only its beginning
}

TEST(Tokenizer, KnowsALowerBoundOfItsTokens) {
  const std::string abc = "abcabcabcabcabcabc";  // the longest tokens, <tool>, have 6 bytes
  EXPECT_EQ(make(small_spec()).least_tokens(abc), 3u);
  EXPECT_EQ(make(small_spec()).least_tokens("<tool><tool>"), 2u);
  EXPECT_EQ(make(small_spec()).least_tokens(""), 0u);
  TokenizerSpec spec = small_spec();
  spec.nfc = true;
  EXPECT_EQ(make(spec).least_tokens(abc + abc + abc), 2u) << "composing may make the text shorter";
  spec = small_spec();
  spec.tokens['x'] = "xx";  // no token for this byte: it is dropped
  EXPECT_EQ(make(spec).least_tokens(abc + std::string(1000, 'x')), 3u);
  spec = small_spec();
  spec.added[0].lstrip = true;
  EXPECT_EQ(make(spec).least_tokens(abc), 0u) << "its whitespace may vanish";
}

TEST(Nfc, NothingShrinksToLessThanAQuarter) {
  // The worst cases known: a syllable of three letters, letters with two marks, signs with a shorter twin.
  for (const char* text : {"\u1112\u1161\u11ab", "\u1fbe\u0308\u0301", "\u03b1\u0313\u0300\u0345", "\u212b",
                           "\u2126", "\u1f71", "u\u0308\u0304", "\u1fbe\u0308\u0342"}) {
    const std::string_view before(text);
    const std::string after = normalize_nfc(before).take();
    EXPECT_GE(4 * after.size(), before.size()) << text;
    EXPECT_LT(after.size(), before.size()) << text;
  }
}

TEST(Tokenizer, AllBytesRoundTrip) {
  const Tokenizer t = make(small_spec());
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  EXPECT_EQ(t.decode(t.encode(all).take(), false), all);
}

TEST(Tokenizer, ContradictionsAreRefused) {
  struct Row {
    std::string what;
    std::function<void(TokenizerSpec&)> damage;
    Code code;
  };
  const std::vector<Row> rows = {
      {"vocabulary has 1", [](TokenizerSpec& s) { s.tokens.assign(1, "x"); }, Code::kCorrupt},
      {"0 tokens", [](TokenizerSpec& s) { s.tokens.clear(); }, Code::kCorrupt},
      {"bos id 262", [](TokenizerSpec& s) { s.bos_id = 262; }, Code::kCorrupt},
      {"no BOS token", [](TokenizerSpec& s) { s.bos_id = -1, s.add_bos = true; }, Code::kCorrupt},
      {"end id -1", [](TokenizerSpec& s) { s.end_ids = {-1}; }, Code::kCorrupt},
      {"added token id 300", [](TokenizerSpec& s) { s.added[0].id = 300; }, Code::kCorrupt},
      {"added token 261 is empty", [](TokenizerSpec& s) { s.added[0].id = 261; }, Code::kCorrupt},
      {"appears twice", [](TokenizerSpec& s) { s.added[0].id = kBos; }, Code::kCorrupt},
      {"are both 'ab'", [](TokenizerSpec& s) { s.tokens[257] = "ab"; }, Code::kCorrupt},
      {"expected 'left right'", [](TokenizerSpec& s) { s.merges[0] = "ab"; }, Code::kCorrupt},
      {"expected 'left right'", [](TokenizerSpec& s) { s.merges[0] = "a  b"; }, Code::kCorrupt},
      {"not in the vocabulary", [](TokenizerSpec& s) { s.merges[0] = "b a"; }, Code::kCorrupt},
      {"makes a control token", [](TokenizerSpec& s) { s.tokens[kEnd] = "ca", s.merges.push_back("c a"); },
       Code::kCorrupt},
      {"split rule 77", [](TokenizerSpec& s) { s.split_rules = {static_cast<SplitRule>(77)}; },
       Code::kUnsupported},
  };
  for (const Row& row : rows) {
    TokenizerSpec spec = small_spec();
    row.damage(spec);
    const Result<Tokenizer> t = Tokenizer::create(spec);
    ASSERT_FALSE(t.ok()) << row.what;
    EXPECT_EQ(static_cast<int>(t.status().code()), static_cast<int>(row.code)) << t.status().to_string();
    EXPECT_NE(t.status().message().find(row.what), std::string::npos) << t.status().to_string();
  }
}

TEST(Tokenizer, DigestCoversWhateverDecidesIds) {
  const Digest base = make(small_spec()).tokenizer_digest();
  EXPECT_EQ(make(small_spec()).tokenizer_digest(), base);
  const std::vector<std::pair<std::string, std::function<void(TokenizerSpec&)>>> changes = {
      {"token", [](TokenizerSpec& s) { s.tokens[kTool] = "<Tool>"; }},
      {"hole", [](TokenizerSpec& s) { s.tokens.emplace_back(); }},
      {"merge order", [](TokenizerSpec& s) { std::swap(s.merges[0], s.merges[1]); }},
      {"merge", [](TokenizerSpec& s) { s.merges.pop_back(); }},
      {"added", [](TokenizerSpec& s) { s.added.erase(s.added.begin()); }},
      {"special", [](TokenizerSpec& s) { s.added[0].special = true; }},
      {"normalized", [](TokenizerSpec& s) { s.added[0].normalized = true; }},
      {"lstrip", [](TokenizerSpec& s) { s.added[0].lstrip = true; }},
      {"rstrip", [](TokenizerSpec& s) { s.added[0].rstrip = true; }},
      {"rule", [](TokenizerSpec& s) { s.split_rules = {SplitRule::kQwen2}; }},
      {"rules", [](TokenizerSpec& s) { s.split_rules.push_back(SplitRule::kDigits); }},
      {"nfc", [](TokenizerSpec& s) { s.nfc = true; }},
      {"ignore_merges", [](TokenizerSpec& s) { s.ignore_merges = true; }},
      {"bos", [](TokenizerSpec& s) { s.bos_id = kEnd; }},
      {"add_bos", [](TokenizerSpec& s) { s.add_bos = true; }},
      {"unknown", [](TokenizerSpec& s) { s.unknown_id = 0; }},
  };
  for (const auto& [what, change] : changes) {
    TokenizerSpec spec = small_spec();
    change(spec);
    EXPECT_NE(make(spec).tokenizer_digest(), base) << what;
  }
  TokenizerSpec same = small_spec();
  std::reverse(same.added.begin(), same.added.end());
  same.end_ids.clear();
  EXPECT_EQ(make(same).tokenizer_digest(), base) << "order of added tokens, end tokens";
}

TEST(Detokenizer, NeverSplitsAScalar) {
  const Tokenizer t = make(small_spec());
  const std::string family = "\U0001F468\u200D\U0001F469\u200D\U0001F467 ok";
  Detokenizer d(t, true);
  std::string text;
  for (const char c : family) {
    const std::string part = d.feed(static_cast<uint8_t>(c));
    EXPECT_EQ(utf8_valid_prefix(part), part.size());
    text += part;
  }
  EXPECT_EQ(text, family);
  EXPECT_EQ(d.flush(), "");
}

TEST(Detokenizer, ReplacesWhatCannotBecomeAScalar) {
  struct Row {
    Ids ids;
    std::vector<std::string> parts;
    std::string flushed;
  };
  const std::vector<Row> rows = {
      {{0xF0, 0x9F, 0x98, 0x80}, {"", "", "", "\U0001F600"}, ""},
      {{0xF0, 0x9F, 0x98}, {"", "", ""}, "\uFFFD"},
      {{0xF0, 0x9F, 'a'}, {"", "", "\uFFFDa"}, ""},
      {{0x80, 'a'}, {"\uFFFD", "a"}, ""},
      {{0xC3, 0xC3, 0xA9}, {"", "\uFFFD", "\u00e9"}, ""},
      {{0xC3, kEnd, 0xA9}, {"", "", "\u00e9"}, ""},  // a skipped token ends nothing
      {{'a', 261, 9999, -1}, {"a", "", "", ""}, ""},
      {{kTool, 257}, {"<tool>", "abc"}, ""},
  };
  const Tokenizer t = make(small_spec());
  for (const Row& row : rows) {
    Detokenizer d(t, true);
    for (size_t i = 0; i < row.ids.size(); ++i) EXPECT_EQ(d.feed(row.ids[i]), row.parts[i]);
    EXPECT_EQ(d.flush(), row.flushed);
    EXPECT_EQ(d.flush(), "");
  }
}

}  // namespace
}  // namespace isthmus
