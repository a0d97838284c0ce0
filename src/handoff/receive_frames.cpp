// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "base/hash.h"
#include "handoff/frame.h"
#include "handoff/open_message.h"
#include "handoff/receiver.h"
#include "handoff/rows_payload.h"

namespace isthmus::handoff {
namespace {

constexpr std::chrono::milliseconds kAbortGrace{1'000};

Status out_of_order(const std::string& what) {
  return {Code::kCorrupt, "handoff: " + what};
}

// One connection's progress through its frames. Lives on the connection thread.
class FrameLoop {
 public:
  FrameLoop(ByteStream& stream, Incoming& incoming, std::chrono::milliseconds idle, std::stop_token stop)
      : stream_(stream),
        incoming_(incoming),
        spec_(incoming.spec()),
        idle_(idle),
        stop_(std::move(stop)),
        landed_(spec_.first) {}

  Status run() {
    ASSIGN_OR_RETURN(const Frame open, next(0));  // OPEN has no payload
    if (open.type != FrameType::kOpen)
      return out_of_order(std::string(frame_type_name(open.type)) + " before OPEN");
    TRY(check_open(open.json, spec_));
    note(open);
    TRY(acknowledge(false));
    while (true) {
      ASSIGN_OR_RETURN(Frame frame, next(kMaxPayloadBytes));
      switch (frame.type) {
        case FrameType::kPing:
          break;
        case FrameType::kRows:
          TRY(rows(frame));
          break;
        case FrameType::kSeal:
          return seal(frame);
        case FrameType::kAbort:
          return abort_status(frame.json);
        default:
          return out_of_order("unexpected " + std::string(frame_type_name(frame.type)));
      }
      note(frame);
    }
  }

  Status acknowledge(bool is_sealed) {
    return send(FrameType::kAck, {{"landed", landed_}, {"sealed", is_sealed}});
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
  IoLimits limits() const { return IoLimits{std::chrono::steady_clock::now() + idle_, stop_}; }

  Result<Frame> next(uint32_t max_payload) {
    auto frame = read_frame(stream_, received_, max_payload, limits());
    if (frame.ok()) {
      ++received_;
      incoming_.frame_seen();
    }
    return frame;
  }

  // SEAL repeats a digest over these.
  void note(const Frame& frame) { checksums_.write(frame.checksum); }

  Status send(FrameType type, const Json& json) {
    return write_frame(stream_, type, sent_++, {json, {}}, limits()).status();
  }

  // Blocks come strictly ascending, each in one frame or in consecutive ones of ascending planes.
  Status rows(const Frame& frame) {
    ASSIGN_OR_RETURN(const RowsMessage m, parse_rows(frame.json, spec_.layout));
    const int64_t block = spec_.layout.block_tokens;
    const int64_t boundary = std::min(landed_ / block * block + block, spec_.last);
    if (m.first != landed_ || m.last != boundary || m.first_plane != planes_seen_) {
      return out_of_order("ROWS [" + std::to_string(m.first) + ", " + std::to_string(m.last) +
                          ") from plane " + std::to_string(m.first_plane) + ", expected [" +
                          std::to_string(landed_) + ", " + std::to_string(boundary) + ") from plane " +
                          std::to_string(planes_seen_));
    }
    if (planes_seen_ == 0) block_.resize(spec_.layout.block_bytes(m.first, m.last));
    TRY(unpack_rows(spec_.layout, m, frame.payload, block_));
    planes_seen_ += m.planes;
    if (planes_seen_ < spec_.layout.planes.size()) return {};
    planes_seen_ = 0;
    const uint64_t bytes = block_.size();
    TRY(incoming_.sink().put(m.first, m.last, std::move(block_)));
    block_ = Bytes();
    bytes_ += bytes;
    landed_ = m.last;
    incoming_.rows_landed(landed_, bytes);
    return acknowledge(false);
  }

  Status seal(const Frame& frame) {
    const std::string digest = hex64(xxh3_64(checksums_.bytes()));
    ASSIGN_OR_RETURN(const int64_t last, get_int(frame.json, "last", "handoff SEAL"));
    ASSIGN_OR_RETURN(const int64_t frames, get_int(frame.json, "frames", "handoff SEAL"));
    ASSIGN_OR_RETURN(const int64_t bytes, get_int(frame.json, "bytes", "handoff SEAL"));
    ASSIGN_OR_RETURN(const std::string theirs, get_string(frame.json, "digest", "handoff SEAL"));
    if (last != landed_ || planes_seen_ != 0 || frames != received_ - 1 ||
        bytes != static_cast<int64_t>(bytes_) || theirs != digest) {
      return {Code::kCorrupt, "handoff SEAL: claims rows to " + std::to_string(last) + " in " +
                                  std::to_string(frames) + " frames and " + std::to_string(bytes) +
                                  " bytes, received rows to " + std::to_string(landed_) + " in " +
                                  std::to_string(received_ - 1) + " frames and " + std::to_string(bytes_) +
                                  " bytes" + (theirs == digest ? "" : ", digest differs")};
    }
    TRY(incoming_.sink().seal(last));
    TRY(acknowledge(true));
    return {};
  }

  ByteStream& stream_;
  Incoming& incoming_;
  const TransferSpec& spec_;
  const std::chrono::milliseconds idle_;
  const std::stop_token stop_;
  uint32_t received_ = 0;
  uint32_t sent_ = 0;
  int64_t landed_ = 0;
  size_t planes_seen_ = 0;  // of the block being assembled
  Bytes block_;
  uint64_t bytes_ = 0;
  ByteWriter checksums_;
};

}  // namespace

Status receive_frames(ByteStream& stream, Incoming& incoming, std::chrono::milliseconds idle_timeout,
                      const std::stop_token& stop) {
  FrameLoop loop(stream, incoming, idle_timeout, stop);
  const Status ended = loop.run();
  if (ended.ok()) {
    incoming.sealed();
  } else {
    incoming.sink().abort(ended);
    const bool peer_listens = ended.code() != Code::kUnavailable && ended.code() != Code::kIo;
    if (peer_listens) loop.refuse(ended);
    incoming.fail(ended);
  }
  return ended;
}

}  // namespace isthmus::handoff
