// SPDX-License-Identifier: Apache-2.0
// Whole transfers over loopback: a real receiver and sender.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "flow/hybrid_test_util.h"
#include "handoff/handoff_test_util.h"
#include "net/faulty_stream.h"
#include "net/tcp.h"

namespace isthmus {
namespace {

using namespace handoff_test;

TEST(Handoff, EveryByteArrivesAndIsCounted) {
  for (const int64_t tokens : {2, 8, 9, 10, 17, 48, 50}) {
    for (const int64_t first : {int64_t{0}, int64_t{8}}) {
      if (first >= tokens - 1) continue;
      Pair p;
      const TransferSpec spec = spec_for(tokens, first);
      auto in = p.expect(spec);
      ASSERT_TRUE(in.ok());
      auto out = p.open(spec);
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      const Status sent = send_all(**out, spec);
      ASSERT_TRUE(sent.ok()) << sent.to_string();
      const TransferState s = p.wait(**in);
      EXPECT_TRUE(s.sealed);
      EXPECT_EQ(s.landed, spec.last);
      EXPECT_EQ(s.payload_bytes, total_plane_bytes(spec));
      EXPECT_EQ(p.landed.sealed, spec.last);
      for (int64_t a = spec.first; a < spec.last; a += kBlock) {
        EXPECT_EQ(p.landed.blocks[a], block_bytes(spec.layout, a, std::min(a + kBlock, spec.last))) << a;
      }
      in->reset();
      EXPECT_EQ(p.receiver->stats().live, 0);
    }
  }
}

TEST(Handoff, CarriesAHybridModelsState) {
  const PlaneLayout layout = hybrid_test::hybrid_layout();
  std::map<int64_t, Bytes> blocks;
  for (const int64_t end : {256, 512}) {
    blocks[end - 256] = hybrid_test::block_planes(layout, hybrid_test::golden(end), end);
  }
  Pair p;
  TransferSpec spec = spec_for(513);
  spec.layout = layout;
  auto in = p.expect(spec);
  auto out = p.open(spec);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  for (const auto& [first, planes] : blocks) ASSERT_TRUE((*out)->put(first, first + 256, planes).ok());
  ASSERT_TRUE((*out)->seal(512).ok());
  EXPECT_TRUE(p.wait(**in).sealed);
  in->reset();
  EXPECT_EQ(p.landed.blocks, blocks);
}

TEST(Handoff, APeerMayBeSlowButNotSilent) {
  struct Row {
    const char* name;
    StreamFault fault;
    bool sealed;
  } rows[] = {
      {"a byte at a time", {StreamFault::Kind::kShort, StreamFault::Direction::kWrite, 2'000, 1}, true},
      {"silent from a byte on", {StreamFault::Kind::kStall, StreamFault::Direction::kWrite, 2'000, 1}, false},
  };
  for (const Row& r : rows) {
    Pair p;
    p.options.wrap = [&r](std::unique_ptr<ByteStream> inner) -> std::unique_ptr<ByteStream> {
      return std::make_unique<FaultyStream>(std::move(inner), std::vector<StreamFault>{r.fault});
    };
    const TransferSpec spec = spec_for(40);
    auto in = p.expect(spec);
    auto out = p.open(spec);
    ASSERT_TRUE(out.ok()) << r.name;
    EXPECT_EQ(send_all(**out, spec).ok(), r.sealed) << r.name;
    const TransferState s = p.wait(**in);
    EXPECT_EQ(s.sealed, r.sealed) << r.name << ": " << s.error.to_string();
    if (!r.sealed) {
      EXPECT_EQ(s.error.code(), Code::kDeadlineExceeded) << s.error.to_string();
    }
  }
}

// Bytes that keep coming do not hold a transfer for ever.
TEST(Handoff, AFrameHasATimeLimit) {
  ReceiverOptions options;
  options.port = 0;
  options.token = "secret";
  options.memory_floor_bytes = 0;
  options.timeouts.frame = std::chrono::milliseconds(200);
  const auto receiver = Receiver::start(options).take();
  Landed landed;
  const TransferSpec spec = spec_for(40);
  auto in = receiver->expect(spec, std::make_unique<MemorySink>(landed)).take();
  const auto limits = IoLimits::within_ms(10'000);
  const auto stream = TcpStream::connect(HostPort{"127.0.0.1", receiver->port()}, limits).take();
  ASSERT_TRUE(offer_handshake(*stream, "secret", kId, limits).ok());
  std::jthread dripping([&](const std::stop_token& stop) {
    const FrameHead head = frame_head(FrameType::kOpen, 0, open_json(spec), {});
    for (size_t i = 0; i + 1 < head.bytes.size() && !stop.stop_requested(); ++i) {
      const ConstBytes part[] = {std::span(head.bytes).subspan(i, 1)};
      if (!stream->write_all(part, limits).ok()) return;
      (void)in->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5), {});
    }
  });
  const TransferState s = in->wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(10), {});
  EXPECT_EQ(s.error.code(), Code::kDeadlineExceeded) << s.error.to_string();
}

TEST(Handoff, ARefusalReachesTheWaiterAtOnceAndTheSenderToo) {
  Pair p;
  p.landed.refuse_from = 0;
  const TransferSpec spec = spec_for(40);
  auto in = p.expect(spec);
  RawSender sender(p);
  sender.send(FrameType::kOpen, 0, open_json(spec));
  sender.send(FrameType::kRows, 1, rows_json({0, 8, 0, 6}),
              payload_of(spec.layout, 0, 8, block_bytes(spec.layout, 0, 8)));
  EXPECT_EQ(p.wait(**in).error.code(), Code::kResourceExhausted);
  const auto forgotten = std::chrono::steady_clock::now();
  in->reset();  // does not wait for a peer that neither reads nor closes
  EXPECT_LT(std::chrono::steady_clock::now() - forgotten, std::chrono::milliseconds(500));
  const auto limits = IoLimits::within_ms(5'000);
  ASSERT_TRUE(read_frame(*sender.stream, 0, 0, limits).ok());  // the ACK of OPEN
  const auto why = read_frame(*sender.stream, 1, 0, limits);
  ASSERT_TRUE(why.ok()) << why.status().to_string();
  EXPECT_EQ(why->type, FrameType::kAbort);
}

TEST(Handoff, RefusesWhatIsNotExpected) {
  struct Row {
    const char* name;
    void (*change)(TransferSpec&);
    const char* field;
  } rows[] = {
      {"other prompt", [](TransferSpec& s) { s.ids = sha256("other"); }, "ids"},
      {"other model", [](TransferSpec& s) { s.identity = sha256("other"); }, "identity"},
      {"other producer", [](TransferSpec& s) { s.source.producer = sha256("other"); }, "producer"},
      {"other mode", [](TransferSpec& s) { s.source.kind = SourceKind::kKv; }, "mode"},
      {"other start", [](TransferSpec& s) { s.first = 8; }, "first"},
      {"longer prompt", [](TransferSpec& s) { ++s.last; }, "last"},
      {"other layout", [](TransferSpec& s) { s.layout.planes[1].row_values = 5; }, "layout"},
      {"other block size", [](TransferSpec& s) { s.layout.block_tokens = 16; }, "layout.block_tokens"},
  };
  for (const Row& r : rows) {
    Pair p;
    TransferSpec spec = spec_for(40);
    auto in = p.expect(spec);
    r.change(spec);
    const auto out = p.open(spec);
    ASSERT_FALSE(out.ok()) << r.name;
    EXPECT_NE(out.status().message().find(r.field), std::string::npos)
        << r.name << ": " << out.status().to_string();
    const TransferState s = p.wait(**in);
    EXPECT_EQ(s.error.code(), Code::kMismatch) << r.name;
    EXPECT_TRUE(p.landed.blocks.empty());
  }
}

TEST(Handoff, WrongTokenLearnsAndLandsNothing) {
  Pair p("secret", "guess");
  const TransferSpec spec = spec_for(40);
  auto in = p.expect(spec);
  EXPECT_EQ(p.open(spec).status().code(), Code::kUnauthenticated);
  EXPECT_FALSE((*in)->state().ended);  // an impostor cannot end a transfer
  p.options.token = "secret";
  auto out = p.open(spec);
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(send_all(**out, spec).ok());
}

TEST(Handoff, ATransferIsUsedOnce) {
  Pair p;
  const TransferSpec spec = spec_for(20);
  EXPECT_FALSE(p.open(spec).ok());  // never expected
  auto in = p.expect(spec);
  auto out = p.open(spec);
  ASSERT_TRUE(out.ok());
  EXPECT_FALSE(p.open(spec).ok());  // a second connection while the first runs
  ASSERT_TRUE(send_all(**out, spec).ok());
  EXPECT_TRUE(p.wait(**in).sealed);
  EXPECT_FALSE(p.open(spec).ok());  // replay after the seal
  in->reset();
  EXPECT_FALSE(p.open(spec).ok());  // replay after it is forgotten
}

TEST(Handoff, ConnectionCutAfterAnyByteKeepsWholeBlocksOnly) {
  const TransferSpec spec = spec_for(40);
  uint64_t whole = 0;
  for (uint64_t cut = 40; cut < 6000; cut += 331) {
    Pair p;
    p.options.wrap = [cut](std::unique_ptr<ByteStream> inner) -> std::unique_ptr<ByteStream> {
      StreamFault fault;
      fault.offset = cut;
      return std::make_unique<FaultyStream>(std::move(inner), std::vector<StreamFault>{fault});
    };
    auto in = p.expect(spec);
    auto out = p.open(spec);
    const Status sent = out.ok() ? send_all(**out, spec) : out.status();
    if (sent.ok()) {
      ++whole;
      continue;
    }
    if (out.ok()) {
      out->reset();  // the connection ends, and the transfer with it
    } else {
      (*in)->fail(Status(Code::kUnavailable, "test: the sender is gone"));  // it may never have authenticated
    }
    const TransferState s = p.wait(**in);
    EXPECT_TRUE(s.ended);
    EXPECT_FALSE(s.sealed);
    EXPECT_EQ(p.landed.sealed, -1);
    in->reset();
    for (const auto& [first, bytes] : p.landed.blocks) {
      EXPECT_EQ(bytes, block_bytes(spec.layout, first, std::min(first + kBlock, spec.last)));
    }
    EXPECT_EQ(static_cast<int64_t>(p.landed.blocks.size()) * kBlock, s.landed);
  }
  EXPECT_GT(whole, 0u);  // the sweep reached past the end
}

TEST(Handoff, AReceiverThatRefusesRowsTellsTheSender) {
  Pair p;
  p.landed.refuse_from = 16;
  const TransferSpec spec = spec_for(40);
  auto in = p.expect(spec);
  auto out = p.open(spec);
  ASSERT_TRUE(out.ok());
  const Status sent = send_all(**out, spec);
  EXPECT_EQ(sent.code(), Code::kResourceExhausted);
  EXPECT_NE(sent.message().find("memory floor"), std::string::npos);
  EXPECT_EQ(p.wait(**in).landed, 16);
}

TEST(Handoff, SenderAbortCarriesTheReason) {
  Pair p;
  const TransferSpec spec = spec_for(40);
  auto in = p.expect(spec);
  auto out = p.open(spec);
  ASSERT_TRUE((*out)->put(0, 8, block_bytes(spec.layout, 0, 8)).ok());
  (*out)->abort(Status(Code::kInvalidArgument, "prompt of 40 tokens, the engine takes 32"));
  const TransferState s = p.wait(**in);
  EXPECT_FALSE(s.sealed);
  EXPECT_NE(s.error.message().find("the engine takes 32"), std::string::npos) << s.error.to_string();
}

TEST(Handoff, DroppingTheExpectationEndsTheSender) {
  Pair p;
  const TransferSpec spec = spec_for(4000);
  auto in = p.expect(spec);
  auto out = p.open(spec);
  ASSERT_TRUE(out.ok());
  in->reset();
  EXPECT_FALSE(send_all(**out, spec).ok());
}

TEST(Handoff, AFrozenReceiverIsGivenUp) {
  // Accepts, authenticates and acknowledges OPEN; then it is silent with the connection open.
  const auto listener = TcpListener::bind().take();
  std::stop_source done;
  std::jthread frozen([&] {
    const auto limits = IoLimits::within_ms(20'000, done.get_token());
    const auto stream = listener->accept(limits).take();
    ASSERT_TRUE(accept_handshake(*stream, "secret", limits).ok());
    ASSERT_TRUE(read_frame(*stream, 0, 0, limits).ok());
    ASSERT_TRUE(write_frame(*stream, FrameType::kAck, 0, {{{"landed", 0}}, {}}, limits).ok());
    Bytes rest(1 << 20);
    (void)stream->read_exact(rest, limits);  // until the sender closes
  });
  SenderOptions options;
  options.token = "secret";
  options.ack_timeout = std::chrono::milliseconds(300);
  options.ping_every = std::chrono::milliseconds(50);
  const TransferSpec spec = spec_for(40);
  auto out = Sender(options).open(spec, "127.0.0.1", listener->port(), {});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(send_all(**out, spec).code(), Code::kDeadlineExceeded);
  out->reset();
  done.request_stop();
}

TEST(Handoff, ALayoutTooLargeForOpenIsAnError) {
  Pair p;
  TransferSpec spec = spec_for(40);
  for (int i = 0; i < 2000; ++i) {
    spec.layout.planes.push_back({"extra" + std::to_string(i), 3, PlaneKind::kTokenRows, 1, DType::kBF16, 4});
  }
  auto in = p.expect(spec);
  EXPECT_EQ(p.open(spec).status().code(), Code::kInvalidArgument);
}

TEST(Handoff, APlaneTooLargeForAFrameIsAnError) {
  Pair p;
  TransferSpec spec = spec_for(40);
  spec.layout.planes.push_back(
      {"huge", 3, PlaneKind::kTokenRows, 1, DType::kF32, kMaxPayloadBytes / (4 * kBlock)});
  auto in = p.expect(spec);
  const Status refused = p.open(spec).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(refused.message().find("plane huge"), std::string::npos) << refused.message();
}

TEST(Handoff, LimitsTransfers) {
  Pair p;
  std::vector<std::unique_ptr<IncomingTransfer>> held;
  for (int i = 0; i < 8; ++i) {
    TransferSpec spec = spec_for(20);
    spec.id = random_hex(16);
    held.push_back(p.expect(spec).take());
  }
  EXPECT_EQ(p.expect(spec_for(20)).status().code(), Code::kResourceExhausted);
  held.pop_back();
  EXPECT_TRUE(p.expect(spec_for(20)).ok());
}

}  // namespace
}  // namespace isthmus
