// SPDX-License-Identifier: Apache-2.0
// The whole handoff over loopback: a real receiver and sender, rows of a hybrid layout, and one fault a row.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "base/hash.h"
#include "handoff/frame.h"
#include "handoff/handshake.h"
#include "handoff/open_message.h"
#include "handoff/receiver.h"
#include "handoff/rows_payload.h"
#include "handoff/sender.h"
#include "net/faulty_stream.h"

namespace isthmus::handoff {
namespace {

constexpr int64_t kBlock = 8;
const std::string kId = "00112233445566778899aabbccddeeff";

// Every kind of plane, as in a hybrid model: token rows, two pools, window, previous window, remainder.
PlaneLayout hybrid_layout() {
  PlaneLayout layout;
  layout.block_tokens = kBlock;
  layout.planes = {
      {"L0.window", 0, PlaneKind::kWindow, 5, DType::kF32, 3},
      {"L1.k", 1, PlaneKind::kTokenRows, 1, DType::kBF16, 4},
      {"L1.pool", 1, PlaneKind::kPooled, 4, DType::kBF16, 6},
      {"L1.prev", 1, PlaneKind::kPrevious, 4, DType::kF16, 2},
      {"L1.buf", 1, PlaneKind::kRemainder, 4, DType::kBF16, 2},
      {"L2.pool", 2, PlaneKind::kPooled, 16, DType::kBF16, 2},
  };
  return layout;
}

// Finite values that differ at every place.
Bytes block_bytes(const PlaneLayout& layout, int64_t first, int64_t last) {
  Bytes bytes(layout.block_bytes(first, last));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(first) * 13) & 0x3b);
  return bytes;
}

TransferSpec spec_for(int64_t tokens, int64_t first = 0) {
  TransferSpec s;
  s.id = kId;
  s.prompt_tokens = tokens;
  s.first = first;
  s.last = tokens - 1;
  s.ids = sha256("ids");
  s.identity = sha256("identity");
  s.source = {SourceKind::kProject, sha256("producer")};
  s.layout = hybrid_layout();
  return s;
}

// Remembers what landed; refuses from a given row on when asked to.
struct Landed {
  std::map<int64_t, Bytes> blocks;
  int64_t sealed = -1;
  Status aborted;
  int64_t refuse_from = INT64_MAX;
};
class MemorySink final : public RowSink {
 public:
  explicit MemorySink(Landed& landed) : landed_(landed) {}
  Status put(int64_t first, int64_t, Bytes planes) override {
    if (first >= landed_.refuse_from) return {Code::kResourceExhausted, "store: memory floor"};
    landed_.blocks[first] = std::move(planes);
    return {};
  }
  Status seal(int64_t last) override {
    landed_.sealed = last;
    return {};
  }
  void abort(const Status& why) override { landed_.aborted = why; }

 private:
  Landed& landed_;
};

struct Pair {
  explicit Pair(std::string receiver_token = "secret", std::string sender_token = "secret") {
    ReceiverOptions r;
    r.port = 0;
    r.token = std::move(receiver_token);
    r.memory_floor_bytes = 0;
    r.idle_timeout = std::chrono::milliseconds(2'000);
    receiver = Receiver::start(r).take();
    options.token = std::move(sender_token);
    options.ack_timeout = std::chrono::milliseconds(3'000);
  }
  Result<std::unique_ptr<IncomingTransfer>> expect(const TransferSpec& spec) {
    return receiver->expect(spec, std::make_unique<MemorySink>(landed));
  }
  Result<std::unique_ptr<OutgoingTransfer>> open(const TransferSpec& spec) {
    return Sender(options).open(spec, "127.0.0.1", receiver->port(), {});
  }
  TransferState wait(IncomingTransfer& in) {
    return in.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(10), {});
  }

  Landed landed;
  std::unique_ptr<Receiver> receiver;
  SenderOptions options;
};

Status send_all(OutgoingTransfer& out, const TransferSpec& spec) {
  for (int64_t a = spec.first; a < spec.last; a += kBlock) {
    const int64_t b = std::min(a + kBlock, spec.last);
    TRY(out.put(a, b, block_bytes(spec.layout, a, b)));
  }
  return out.seal(spec.last);
}

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

// A peer that passed the handshake and then sends what it likes.
struct RawSender {
  explicit RawSender(Pair& p) {
    const auto limits = IoLimits::within_ms(5'000);
    stream = TcpStream::connect(HostPort{"127.0.0.1", p.receiver->port()}, limits).take();
    EXPECT_TRUE(offer_handshake(*stream, "secret", kId, limits).ok());
  }
  void send(FrameType type, uint32_t sequence, const Json& json, const Bytes& payload = {}) {
    const ConstBytes parts[] = {payload};
    EXPECT_TRUE(write_frame(*stream, type, sequence, {json, parts}, IoLimits::within_ms(5'000)).ok());
  }
  std::unique_ptr<TcpStream> stream;
};

Bytes payload_of(const PlaneLayout& layout, int64_t a, int64_t b, const Bytes& block) {
  const RowsPayload p = rows_payload(layout, {a, b, 0, layout.planes.size()}, block).take();
  ByteWriter w;
  w.append(std::span<const std::byte>(p.head));
  for (const ConstBytes& s : p.planes) w.append(s);
  return w.take();
}

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

TEST(Frame, EveryFlippedBitIsSeen) {
  const std::string text = "payload bytes";
  const ConstBytes payload[] = {as_byte_span(text)};
  const FrameHead head = frame_head(FrameType::kRows, 3, {{"first", 0}}, payload);
  Bytes whole = head.bytes;
  whole.insert(whole.end(), payload[0].begin(), payload[0].end());

  class MemoryStream final : public ByteStream {
   public:
    explicit MemoryStream(Bytes b) : bytes_(std::move(b)) {}
    Status read_exact(std::span<std::byte> out, const IoLimits&) override {
      if (out.size() > bytes_.size() - at_) return {Code::kUnavailable, "end"};
      std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at_), out.size(), out.begin());
      at_ += out.size();
      return {};
    }
    Status write_all(std::span<const ConstBytes>, const IoLimits&) override { return {}; }
    void close() override {}

   private:
    Bytes bytes_;
    size_t at_ = 0;
  };

  MemoryStream good(whole);
  const auto frame = read_frame(good, 3, kMaxPayloadBytes, {});
  ASSERT_TRUE(frame.ok()) << frame.status().to_string();
  EXPECT_EQ(as_text(frame->payload), text);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes bad = whole;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    MemoryStream s(bad);
    EXPECT_FALSE(read_frame(s, 3, kMaxPayloadBytes, {}).ok()) << "bit " << bit;
  }
  MemoryStream wrong_turn(whole);
  EXPECT_FALSE(read_frame(wrong_turn, 4, kMaxPayloadBytes, {}).ok());
  MemoryStream no_payload_now(whole);
  EXPECT_FALSE(read_frame(no_payload_now, 3, 0, {}).ok());
}

TEST(Rows, SplitsAtTheLimitAndJoinsAgain) {
  const PlaneLayout layout = hybrid_layout();
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{0, 8}, {8, 16}, {16, 19}, {0, 1}}) {
    const Bytes block = block_bytes(layout, a, b);
    for (const uint32_t limit : {520u, 700u, 1u << 20}) {
      Bytes joined(block.size());
      size_t planes = 0;
      for (const RowsMessage& m : split_block(layout, a, b, limit)) {
        EXPECT_EQ(m.first_plane, planes);
        planes += m.planes;
        const RowsPayload p = rows_payload(layout, m, block).take();
        ByteWriter w;
        w.append(std::span<const std::byte>(p.head));
        for (const ConstBytes& s : p.planes) w.append(s);
        EXPECT_LE(w.size(), limit);
        const Status unpacked = unpack_rows(layout, m, w.bytes(), joined);
        ASSERT_TRUE(unpacked.ok()) << unpacked.to_string();
      }
      EXPECT_EQ(planes, layout.planes.size());
      EXPECT_EQ(joined, block);
    }
  }
}

TEST(Rows, FiniteMeansFinite) {
  struct Row {
    DType type;
    std::vector<uint8_t> bytes;
    bool finite;
  } rows[] = {
      {DType::kBF16, {0x80, 0x7f}, false},
      {DType::kBF16, {0x7f, 0x7f}, true},
      {DType::kBF16, {0x80, 0xff}, false},
      {DType::kF16, {0x00, 0x7c}, false},
      {DType::kF16, {0xff, 0x7b}, true},
      {DType::kF32, {0, 0, 0x80, 0x7f}, false},
      {DType::kF32, {0xff, 0xff, 0x7f, 0x7f}, true},
      {DType::kF8E4M3, {0x7f}, false},
      {DType::kF8E4M3, {0x7e}, true},
      {DType::kI8, {0xff}, true},
  };
  for (const Row& r : rows) EXPECT_EQ(all_finite(r.type, std::as_bytes(std::span(r.bytes))), r.finite);
}

}  // namespace
}  // namespace isthmus::handoff
