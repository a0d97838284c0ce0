// SPDX-License-Identifier: Apache-2.0
// Tests only: rows of a hybrid layout, a sink that remembers, a receiver and a sender over loopback, and a
// sender that writes whatever frames it is told to.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/hash.h"
#include "handoff/frame.h"
#include "handoff/handshake.h"
#include "handoff/open_message.h"
#include "handoff/receiver.h"
#include "handoff/rows_payload.h"
#include "handoff/sender.h"

namespace isthmus::handoff_test {

using namespace handoff;

inline constexpr int64_t kBlock = 8;
inline const std::string kId = "00112233445566778899aabbccddeeff";

// Every kind of plane, as in a hybrid model: token rows, two pools, window, previous window, remainder.
inline PlaneLayout hybrid_layout() {
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
inline Bytes block_bytes(const PlaneLayout& layout, int64_t first, int64_t last) {
  Bytes bytes(layout.block_bytes(first, last));
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(first) * 13) & 0x3b);
  return bytes;
}

inline TransferSpec spec_for(int64_t tokens, int64_t first = 0) {
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
    r.timeouts.idle = std::chrono::milliseconds(2'000);
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

inline Status send_all(OutgoingTransfer& out, const TransferSpec& spec) {
  for (int64_t a = spec.first; a < spec.last; a += kBlock) {
    const int64_t b = std::min(a + kBlock, spec.last);
    TRY(out.put(a, b, block_bytes(spec.layout, a, b)));
  }
  return out.seal(spec.last);
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

inline Bytes payload_of(const PlaneLayout& layout, int64_t a, int64_t b, const Bytes& block) {
  const RowsPayload p = rows_payload(layout, {a, b, 0, layout.planes.size()}, block).take();
  ByteWriter w;
  w.append(std::span<const std::byte>(p.head));
  for (const ConstBytes& s : p.planes) w.append(s);
  return w.take();
}

}  // namespace isthmus::handoff_test
