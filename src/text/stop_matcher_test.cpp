// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

struct Row {
  std::vector<std::string> stops;
  std::vector<std::string> feeds;
  std::vector<std::string> released;  // after each feed
  std::string flushed;
  std::string matched;
};

TEST(StopMatcher, ReleasesNothingOfAStopStringAndFalseStartsUnchanged) {
  const std::vector<Row> rows = {
      {{}, {"any", "thing"}, {"any", "thing"}, "", ""},
      {{""}, {"x"}, {"x"}, "", ""},
      {{"END_OF"}, {"say EN", "D_", "OF", " more"}, {"say ", "", "", ""}, "", "END_OF"},
      {{"END_OF"}, {"EN", "D_", "X", "y"}, {"", "", "END_X", "y"}, "", ""},
      {{"END_OF"}, {"EN", "D_O"}, {"", ""}, "END_O", ""},
      {{"END_OF"}, {"aEND_OFbEND_OF"}, {"a"}, "", "END_OF"},
      {{"aab"}, {"aaa", "ab"}, {"a", "a"}, "", "aab"},
      {{"\n\n"}, {"a\n", "b\n", "\nc"}, {"a", "\nb", ""}, "", "\n\n"},
      {{"abc", "bX"}, {"ab", "X"}, {"", "a"}, "", "bX"},
      {{"abc", "b"}, {"ab", "c"}, {"a", ""}, "", "b"},  // "b" is complete first
      {{"bc", "abc"}, {"abc"}, {""}, "", "abc"},        // complete together: the longest
      {{"\u00e9"}, {"\u00e8", "x\u00e9"}, {"\u00e8", "x"}, "", "\u00e9"},
  };
  for (const Row& row : rows) {
    StopMatcher matcher(row.stops);
    for (size_t i = 0; i < row.feeds.size(); ++i)
      EXPECT_EQ(matcher.feed(row.feeds[i]), row.released[i]) << row.feeds[i];
    EXPECT_EQ(matcher.flush(), row.flushed);
    EXPECT_EQ(matcher.matched(), row.matched);
    EXPECT_EQ(matcher.stopped(), !row.matched.empty());
  }
}

// Every way to cut a text into two feeds, and byte by byte, ends the same.
TEST(StopMatcher, OutcomeDoesNotDependOnTheCuts) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {"aba", "bab"}, {"b", "abc"}, {"aab"}, {"ca", "abca", "bb"}, {"zz"}};
  for (const auto& stops : stop_sets) {
    for (const std::string text : {"aabcabab", "ccabcaab", "aaaab", "abacaba", "cacbb"}) {
      StopMatcher whole(stops);
      std::string expected = whole.feed(text);
      expected += whole.flush();
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        StopMatcher m(stops);
        std::string got = m.feed(text.substr(0, cut));
        got += m.feed(text.substr(cut));
        got += m.flush();
        EXPECT_EQ(got, expected) << text << " at " << cut;
        EXPECT_EQ(m.matched(), whole.matched());
      }
      StopMatcher m(stops);
      std::string got;
      for (const char c : text) got += m.feed(std::string_view(&c, 1));
      got += m.flush();
      EXPECT_EQ(got, expected) << text;
    }
  }
}

}  // namespace
}  // namespace isthmus
