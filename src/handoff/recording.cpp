// SPDX-License-Identifier: Apache-2.0
#include "handoff/recording.h"

#include "handoff/open_message.h"
#include "handoff/transfer_check.h"
#include "net/span_stream.h"

namespace isthmus::handoff {
namespace {

class RecordingReader {
 public:
  explicit RecordingReader(std::span<const std::byte> file) : file_bytes_(file.size()), stream_(file) {}

  Recording read() {
    const Status ended = read_frames();
    if (check_) {
      recording_.taken_to = check_->taken_to();
      recording_.plane_bytes = check_->plane_bytes();
      recording_.digest = check_->digest();
    }
    if (!ended.ok()) {
      recording_.damage = ended;
      recording_.damage_offset = frame_offset_;
    }
    return std::move(recording_);
  }

 private:
  Status read_frames() {
    TRY(open());
    while (!recording_.sealed && recording_.aborted.ok()) {
      frame_offset_ = stream_.position();
      if (stream_.remaining() == 0) return {};  // a cut transfer: its frames are whole
      ASSIGN_OR_RETURN(const Frame frame, next(check_->max_payload()));
      TRY(take(frame));
      keep(frame);
    }
    frame_offset_ = stream_.position();
    if (stream_.remaining() == 0) return {};
    return {Code::kCorrupt, "expected the end of the file after " +
                                std::string(frame_type_name(recording_.frames.back().type)) + ", got " +
                                std::to_string(stream_.remaining()) + " more bytes"};
  }

  Status open() {
    ASSIGN_OR_RETURN(const Frame frame, next(0));
    if (frame.type != FrameType::kOpen) {
      return {Code::kCorrupt, "first frame: expected OPEN, got " + std::string(frame_type_name(frame.type))};
    }
    ASSIGN_OR_RETURN(recording_.opened, parse_open(frame.json));
    check_.emplace(*recording_.opened);
    TRY(check_->open(frame));
    keep(frame);
    return {};
  }

  Result<Frame> next(uint32_t max_payload) { return read_frame(stream_, sequence_++, max_payload, {}); }

  Status take(const Frame& frame) {
    switch (frame.type) {
      case FrameType::kRows:
        return rows(frame);
      case FrameType::kPing:
        check_->ping(frame);
        return {};
      case FrameType::kSeal:
        TRY(check_->seal(frame));
        recording_.sealed = true;
        return {};
      case FrameType::kAbort:
        recording_.aborted = abort_status(frame.json);
        return {};
      default:
        return {Code::kCorrupt,
                "expected ROWS, PING, SEAL or ABORT, got " + std::string(frame_type_name(frame.type))};
    }
  }

  Status rows(const Frame& frame) {
    // The layout is the file's own word: a block that the file cannot hold is not worth the memory.
    const uint64_t block = check_->next_block_bytes();
    if (block > file_bytes_) {
      return {Code::kCorrupt,
              "a block of " + std::to_string(block) + " bytes, the file has " + std::to_string(file_bytes_)};
    }
    return check_->rows(frame).status();
  }

  void keep(const Frame& frame) {
    recording_.frames.push_back(
        {frame_offset_, frame.type, frame.json, frame.payload.size(), frame.checksum});
  }

  const uint64_t file_bytes_;
  SpanStream stream_;
  uint32_t sequence_ = 0;
  uint64_t frame_offset_ = 0;  // of the frame being looked at
  std::optional<TransferCheck> check_;
  Recording recording_;
};

}  // namespace

Recording read_recording(std::span<const std::byte> file) {
  return RecordingReader(file).read();
}

}  // namespace isthmus::handoff
