// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"
#include "handoff/frame.h"
#include "handoff/open_message.h"
#include "handoff/receiver.h"
#include "handoff/transfer_check.h"

namespace isthmus::handoff {
namespace {

constexpr std::chrono::milliseconds kAbortGrace{1'000};

// One connection's progress through its frames. Lives on the connection thread.
class FrameLoop {
 public:
  FrameLoop(ByteStream& stream, Incoming& incoming, const FrameTimeouts& timeouts, std::stop_token stop)
      : stream_(stream),
        incoming_(incoming),
        timeouts_(timeouts),
        stop_(std::move(stop)),
        check_(incoming.spec()),
        landed_(incoming.spec().first) {}

  Status run() {
    ASSIGN_OR_RETURN(const Frame open, next(0));  // OPEN has no payload
    TRY(check_.open(open));
    TRY(acknowledge(false));
    while (true) {
      ASSIGN_OR_RETURN(Frame frame, next(check_.max_payload()));
      switch (frame.type) {
        case FrameType::kPing:
          check_.ping(frame);
          break;
        case FrameType::kRows:
          TRY(rows(frame));
          break;
        case FrameType::kSeal:
          return seal(frame);
        case FrameType::kAbort:
          return abort_status(frame.json);
        default:
          return {Code::kCorrupt, "handoff: unexpected " + std::string(frame_type_name(frame.type))};
      }
    }
  }

  // Says why, then swallows what is still on its way: closing a socket with unread bytes would destroy the
  // reason.
  void refuse(const Status& why) {
    if (!send(FrameType::kAbort, abort_json(why)).ok()) return;
    const IoLimits until{std::chrono::steady_clock::now() + kAbortGrace, stop_};
    Bytes discarded(64 * 1024);
    while (stream_.read_exact(discarded, until).ok()) {
    }
  }

 private:
  IoLimits limits() const {
    return IoLimits{std::chrono::steady_clock::now() + timeouts_.frame, stop_, timeouts_.idle};
  }

  Result<Frame> next(uint32_t max_payload) {
    auto frame = read_frame(stream_, received_, max_payload, limits());
    if (frame.ok()) {
      ++received_;
      incoming_.frame_seen();
    }
    return frame;
  }

  Status send(FrameType type, const Json& json) {
    return write_frame(stream_, type, sent_++, {json, {}}, limits()).status();
  }

  Status acknowledge(bool is_sealed) {
    return send(FrameType::kAck, {{"landed", landed_}, {"sealed", is_sealed}});
  }

  Status rows(const Frame& frame) {
    ASSIGN_OR_RETURN(std::optional<TransferCheck::Block> block, check_.rows(frame));
    if (!block) return {};
    const uint64_t bytes = block->planes.size();
    TRY(incoming_.sink().put(block->first, block->last, std::move(block->planes)));
    landed_ = block->last;
    incoming_.rows_landed(landed_, bytes);
    return acknowledge(false);
  }

  Status seal(const Frame& frame) {
    TRY(check_.seal(frame));
    TRY(incoming_.sink().seal(landed_));
    incoming_.let_go({});     // before the sender can know it and say it elsewhere
    (void)acknowledge(true);  // a sender that is gone by now changes nothing
    return {};
  }

  ByteStream& stream_;
  Incoming& incoming_;
  const FrameTimeouts timeouts_;
  const std::stop_token stop_;
  TransferCheck check_;
  uint32_t received_ = 0;
  uint32_t sent_ = 0;
  int64_t landed_ = 0;
};

}  // namespace

Status receive_frames(ByteStream& stream, Incoming& incoming, const FrameTimeouts& timeouts,
                      const std::stop_token& stop) {
  FrameLoop loop(stream, incoming, timeouts, stop);
  const Status ended = without_exceptions([&loop] { return loop.run(); });
  if (!ended.ok()) incoming.sink().abort(ended);
  incoming.let_go(ended);  // whoever waits for the transfer need not wait for the peer to hear of it
  const bool peer_listens = ended.code() != Code::kUnavailable && ended.code() != Code::kIo;
  if (!ended.ok() && peer_listens) loop.refuse(ended);
  return ended;
}

}  // namespace isthmus::handoff
