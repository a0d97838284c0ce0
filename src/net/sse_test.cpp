// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace isthmus {
namespace {

std::string shown(const SseItem& item) {
  if (item.kind == SseItem::Kind::kComment) return "comment(" + item.data + ")";
  return "event(" + item.event + "|" + item.id + "|" + item.data + ")";
}

std::vector<std::string> parse(std::string_view text, size_t piece) {
  SseParser parser;
  std::vector<std::string> out;
  for (size_t i = 0; i < text.size(); i += piece) {
    const Status fed =
        parser.feed(text.substr(i, piece), [&](SseItem&& item) { out.push_back(shown(item)); });
    EXPECT_TRUE(fed.ok()) << fed.to_string();
  }
  return out;
}

TEST(Sse, ItemsInAnyPieces) {
  using Items = std::vector<std::string>;
  const std::pair<std::string, Items> rows[] = {
      {"data: a\n\n", {"event(||a)"}},
      {"data:a\r\n\r\n", {"event(||a)"}},
      {"data: a\r\rdata: b\r\r", {"event(||a)", "event(||b)"}},
      {"data: a\ndata:  b\n\n", {"event(||a\n b)"}},
      {"data\n\n", {"event(||)"}},
      {"event: x\nid: 7\ndata: {\"a\":1}\nretry: 5\nother: y\n\n", {"event(x|7|{\"a\":1})"}},
      {"event: x\n\ndata: a\n\n",
       {"event(||a)"}},  // an event without data is none, and its name is forgotten
      {": prefill 42 %\n\ndata: [DONE]\n\n", {"comment(prefill 42 %)", "event(||[DONE])"}},
      {":\n", {"comment()"}},
      {"\xEF\xBB\xBF"
       "data: a\n\n",
       {"event(||a)"}},
      {"data: unfinished\n", {}},
      {"data: unfinished", {}},
      {"data: \xE2\x82\xAC\n\n", {"event(||\xE2\x82\xAC)"}},
  };
  for (const auto& [text, expected] : rows) {
    for (const size_t piece : {size_t{1}, size_t{2}, size_t{3}, text.size()}) {
      EXPECT_EQ(parse(text, piece), expected) << text << " in pieces of " << piece;
    }
  }
}

TEST(Sse, BoundaryTellsACutStream) {
  SseParser parser;
  const auto ignore = [](SseItem&&) {};
  EXPECT_TRUE(parser.at_boundary());
  ASSERT_TRUE(parser.feed("data: a", ignore).ok());
  EXPECT_FALSE(parser.at_boundary());
  ASSERT_TRUE(parser.feed("\n", ignore).ok());
  EXPECT_FALSE(parser.at_boundary());
  ASSERT_TRUE(parser.feed("\n", ignore).ok());
  EXPECT_TRUE(parser.at_boundary());
}

TEST(Sse, LimitsLineAndEvent) {
  const auto ignore = [](SseItem&&) {};
  SseParser line(16);
  EXPECT_EQ(line.feed("data: 0123456789abcdef", ignore).code(), Code::kResourceExhausted);
  SseParser event(16);
  EXPECT_TRUE(event.feed("data: 01234567\n", ignore).ok());
  EXPECT_EQ(event.feed("data: 01234567\n", ignore).code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace isthmus
