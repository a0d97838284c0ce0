// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "handoff/handoff_test_util.h"
#include "net/span_stream.h"

namespace isthmus {
namespace {

using namespace handoff_test;

TEST(Frame, EveryFlippedBitIsSeen) {
  const std::string text = "payload bytes";
  const ConstBytes payload[] = {as_byte_span(text)};
  const FrameHead head = frame_head(FrameType::kRows, 3, {{"first", 0}}, payload);
  Bytes whole = head.bytes;
  whole.insert(whole.end(), payload[0].begin(), payload[0].end());

  SpanStream good(whole);
  const auto frame = read_frame(good, 3, kMaxPayloadBytes, {});
  ASSERT_TRUE(frame.ok()) << frame.status().to_string();
  EXPECT_EQ(as_text(frame->payload), text);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes bad = whole;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    SpanStream s(bad);
    EXPECT_FALSE(read_frame(s, 3, kMaxPayloadBytes, {}).ok()) << "bit " << bit;
  }
  SpanStream wrong_turn(whole);
  EXPECT_FALSE(read_frame(wrong_turn, 4, kMaxPayloadBytes, {}).ok());
  SpanStream no_payload_now(whole);
  EXPECT_FALSE(read_frame(no_payload_now, 3, 0, {}).ok());
}

}  // namespace
}  // namespace isthmus
