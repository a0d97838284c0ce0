// SPDX-License-Identifier: Apache-2.0
// Peers that hold the secret, or not, and send what they like: one fault a row.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "handoff/handoff_test_util.h"
#include "net/tcp.h"

namespace isthmus {
namespace {

using namespace handoff_test;

TEST(Handoff, HostileSendersEndTheirTransferAndNothingElse) {
  const TransferSpec spec = spec_for(40);
  const PlaneLayout& layout = spec.layout;
  const Bytes good = payload_of(layout, 0, 8, block_bytes(layout, 0, 8));
  Bytes nan_block = block_bytes(layout, 0, 8);
  std::memset(nan_block.data(), 0xff, 4);
  struct Row {
    const char* name;
    void (*attack)(RawSender&, const TransferSpec&, const Bytes& good, const Bytes& nan);
    Code code;
  } rows[] = {
      {"ROWS before OPEN",
       [](RawSender& s, const TransferSpec&, const Bytes&, const Bytes&) {
         s.send(FrameType::kRows, 0, {{"first", 0}});
       },
       Code::kCorrupt},
      {"payload on OPEN",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t), g);
       },
       Code::kCorrupt},
      {"sequence jumps",
       [](RawSender& s, const TransferSpec& t, const Bytes&, const Bytes&) {
         s.send(FrameType::kOpen, 1, open_json(t));
       },
       Code::kCorrupt},
      {"second block first",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({8, 16, 0, 6}), g);
       },
       Code::kCorrupt},
      {"block twice",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 8, 0, 6}), g);
         s.send(FrameType::kRows, 2, rows_json({0, 8, 0, 6}), g);
       },
       Code::kCorrupt},
      {"not whole blocks",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 7, 0, 6}), g);
       },
       Code::kCorrupt},
      {"planes that are not there",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 8, 3, 6}), g);
       },
       Code::kCorrupt},
      {"non-finite rows",
       [](RawSender& s, const TransferSpec& t, const Bytes&, const Bytes& nan) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 8, 0, 6}), nan);
       },
       Code::kInvalidArgument},
      {"SEAL claims more than came",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 8, 0, 6}), g);
         s.send(FrameType::kSeal, 2, {{"last", 39}, {"frames", 2}, {"bytes", 1}, {"digest", "0"}});
       },
       Code::kCorrupt},
      {"SEAL with a wrong digest",
       [](RawSender& s, const TransferSpec& t, const Bytes& g, const Bytes&) {
         s.send(FrameType::kOpen, 0, open_json(t));
         s.send(FrameType::kRows, 1, rows_json({0, 8, 0, 6}), g);
         s.send(FrameType::kSeal, 2,
                {{"last", 8},
                 {"frames", 2},
                 {"bytes", t.layout.block_bytes(0, 8)},
                 {"digest", "0000000000000000"}});
       },
       Code::kCorrupt},
  };
  for (const Row& r : rows) {
    Pair p;
    auto in = p.expect(spec);
    {
      RawSender sender(p);
      r.attack(sender, spec, good, payload_of(layout, 0, 8, nan_block));
      const TransferState s = p.wait(**in);
      EXPECT_EQ(s.error.code(), r.code) << r.name << ": " << s.error.to_string();
      EXPECT_FALSE(s.sealed) << r.name;
    }
    in->reset();
    EXPECT_EQ(p.landed.sealed, -1) << r.name;
    EXPECT_FALSE(p.landed.aborted.ok()) << r.name;
    auto again = p.expect(spec);  // the process still serves
    auto out = p.open(spec);
    ASSERT_TRUE(out.ok()) << r.name;
    EXPECT_TRUE(send_all(**out, spec).ok()) << r.name;
  }
}

TEST(Handoff, RandomBytesInsteadOfAHandshake) {
  Pair p;
  auto in = p.expect(spec_for(40));
  const auto limits = IoLimits::within_ms(5'000);
  auto stream = TcpStream::connect(HostPort{"127.0.0.1", p.receiver->port()}, limits).take();
  Bytes junk(64, std::byte{0x5a});
  const ConstBytes parts[] = {junk};
  ASSERT_TRUE(stream->write_all(parts, limits).ok());
  Bytes greeting(kGreetingBytes + 1);
  EXPECT_FALSE(stream->read_exact(greeting, limits).ok());  // the greeting, then the end: no proof comes back
  EXPECT_FALSE((*in)->state().ended);
  EXPECT_EQ(p.receiver->stats().unauthenticated, 1u);
}

TEST(Handoff, AReceiverWithoutTheTokenGetsNoRows) {
  const auto listener = TcpListener::bind().take();
  const auto limits = IoLimits::within_ms(5'000);
  std::jthread impostor([&] {
    const auto stream = listener->accept(limits).take();
    ByteWriter greeting;
    greeting.write(kGreetingMagic);
    greeting.write(uint32_t{kVersion});
    greeting.append(std::string_view("a nonce of 16 b."));
    const ConstBytes greeting_parts[] = {greeting.bytes()};
    ASSERT_TRUE(stream->write_all(greeting_parts, limits).ok());
    Bytes proof(kProofBytes);
    ASSERT_TRUE(stream->read_exact(proof, limits).ok());
    const Bytes answer(kAnswerBytes, std::byte{7});  // it takes any proof, and has none of its own
    const ConstBytes answer_parts[] = {answer};
    ASSERT_TRUE(stream->write_all(answer_parts, limits).ok());
    EXPECT_FALSE(read_frame(*stream, 0, 0, limits).ok());
  });
  SenderOptions options;
  options.token = "secret";
  options.ack_timeout = std::chrono::milliseconds(1'000);
  const auto out = Sender(options).open(spec_for(40), "127.0.0.1", listener->port(), {});
  EXPECT_EQ(out.status().code(), Code::kUnauthenticated);
}

}  // namespace
}  // namespace isthmus
