// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <vector>

#include "text/byte_alphabet.h"
#include "text/nfc.h"

namespace isthmus {
namespace {

TEST(Utf8, StepKnowsTheTableOfWellFormedSequences) {
  struct Row {
    std::string bytes;
    Utf8Kind kind;
    size_t length;
    char32_t scalar;
  };
  const std::vector<Row> rows = {
      {"a", Utf8Kind::kScalar, 1, U'a'},
      {std::string(1, '\0'), Utf8Kind::kScalar, 1, 0},
      {"\xC2\x80", Utf8Kind::kScalar, 2, 0x80},
      {"\xDF\xBF", Utf8Kind::kScalar, 2, 0x7FF},
      {"\xE0\xA0\x80", Utf8Kind::kScalar, 3, 0x800},
      {"\xED\x9F\xBF", Utf8Kind::kScalar, 3, 0xD7FF},
      {"\xEF\xBF\xBF", Utf8Kind::kScalar, 3, 0xFFFF},
      {"\xF0\x90\x80\x80", Utf8Kind::kScalar, 4, 0x10000},
      {"\xF4\x8F\xBF\xBF", Utf8Kind::kScalar, 4, 0x10FFFF},
      {"\x80", Utf8Kind::kIllFormed, 1, 0},
      {"\xC0\x80", Utf8Kind::kIllFormed, 1, 0},
      {"\xC1\xBF", Utf8Kind::kIllFormed, 1, 0},
      {"\xE0\x9F\xBF", Utf8Kind::kIllFormed, 1, 0},
      {"\xED\xA0\x80", Utf8Kind::kIllFormed, 1, 0},
      {"\xF0\x8F\xBF\xBF", Utf8Kind::kIllFormed, 1, 0},
      {"\xF4\x90\x80\x80", Utf8Kind::kIllFormed, 1, 0},
      {"\xF5", Utf8Kind::kIllFormed, 1, 0},
      {"\xE2\x82z", Utf8Kind::kIllFormed, 2, 0},
      {"\xF0\x9F\x98z", Utf8Kind::kIllFormed, 3, 0},
      {"\xC3", Utf8Kind::kIncomplete, 1, 0},
      {"\xE2\x82", Utf8Kind::kIncomplete, 2, 0},
      {"\xF0\x9F\x98", Utf8Kind::kIncomplete, 3, 0},
  };
  for (const Row& row : rows) {
    const Utf8Step step = utf8_step(row.bytes);
    EXPECT_EQ(static_cast<int>(step.kind), static_cast<int>(row.kind)) << testing::PrintToString(row.bytes);
    EXPECT_EQ(step.length, row.length) << testing::PrintToString(row.bytes);
    EXPECT_EQ(static_cast<uint32_t>(step.scalar), static_cast<uint32_t>(row.scalar));
    if (row.kind != Utf8Kind::kScalar) continue;
    std::string again;
    utf8_append(row.scalar, again);
    EXPECT_EQ(again, row.bytes);
  }
}

TEST(Utf8, LossyReplacesMaximalSubparts) {
  EXPECT_EQ(utf8_lossy("plain \u00e9"), "plain \u00e9");
  EXPECT_EQ(utf8_lossy("a\x80\x80z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(utf8_lossy("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(utf8_lossy("\xF0\x9F\x98x"), "\uFFFDx");
  EXPECT_EQ(utf8_lossy("\xE2\x82\xF0\x9F\x98\x80"), "\uFFFD\U0001F600");
  std::string out;
  EXPECT_EQ(utf8_append_lossy("ab\xE2\x82", out), 2u);
  EXPECT_EQ(out, "ab");
}

TEST(ByteAlphabet, IsAOneToOneSpelling) {
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  const std::string spelled = byte_alphabet_encode(all);
  EXPECT_EQ(utf8_valid_prefix(spelled), spelled.size());
  EXPECT_EQ(byte_alphabet_decode(spelled), all);
  EXPECT_EQ(byte_alphabet_encode(" a\n"), "\u0120a\u010a");
  EXPECT_EQ(byte_alphabet_encode("\xAD\xFF"), "\u0143\u00FF");
  EXPECT_EQ(byte_alphabet_decode("a b"), std::nullopt);
  EXPECT_EQ(byte_alphabet_decode("\u0144"), std::nullopt);
  EXPECT_EQ(byte_alphabet_decode("\xC3"), std::nullopt);
}

TEST(Nfc, ComposesAndKeepsIllFormedBytes) {
  EXPECT_EQ(normalize_nfc("cafe\u0301").take(), "caf\u00e9");
  EXPECT_EQ(normalize_nfc("\u212b \u1100\u1161\u11a8").take(), "\u00c5 \uac01");
  EXPECT_EQ(normalize_nfc("e\u0301\xFF"
                          "e\u0301")
                .take(),
            "\u00e9\xFF\u00e9");
  EXPECT_EQ(normalize_nfc("\xC3").take(), "\xC3");
  EXPECT_EQ(normalize_nfc("").take(), "");
}

// Marks of alternating class, which a sort by insertion would move past each other.
TEST(Nfc, LongRunsOfMarksStayLinear) {
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i) text += "\u0301\u0323";
  const Result<std::string> normal = normalize_nfc(text);
  ASSERT_TRUE(normal.ok());
  EXPECT_GT(normal->size(), 390'000u);
}

}  // namespace
}  // namespace isthmus
