// SPDX-License-Identifier: Apache-2.0
#include "handoff/outgoing.h"

#include <algorithm>

#include "base/hash.h"
#include "base/thread.h"
#include "handoff/open_message.h"
#include "handoff/rows_payload.h"

namespace isthmus::handoff {
namespace {

// Control frames the receiver sends are small; anything bigger is not ours.
constexpr uint32_t kNoPayload = 0;
// How long an abort waits for a frame that is on its way, so that the peer can still read the reason.
constexpr std::chrono::milliseconds kAbortGrace{1'000};

}  // namespace

Result<std::unique_ptr<OutgoingTransfer>> Outgoing::open(std::unique_ptr<ByteStream> stream,
                                                         const TransferSpec& spec,
                                                         const SenderOptions& options,
                                                         std::stop_token cancel) {
  std::unique_ptr<Outgoing> out(new Outgoing(std::move(stream), spec, options, std::move(cancel)));
  TRY(out->send_open());
  Outgoing* const self = out.get();
  ASSIGN_OR_RETURN(out->reader_,
                   start_thread([self](const std::stop_token& stop) { self->run_reader(stop); }));
  ASSIGN_OR_RETURN(out->writer_,
                   start_thread([self](const std::stop_token& stop) { self->run_writer(stop); }));
  return std::unique_ptr<OutgoingTransfer>(std::move(out));
}

Outgoing::Outgoing(std::unique_ptr<ByteStream> stream, TransferSpec spec, const SenderOptions& options,
                   std::stop_token cancel)
    : stream_(std::move(stream)),
      spec_(std::move(spec)),
      options_(options),
      on_cancel_(std::move(cancel), [this] {
        halt_.request_stop();
        die(Status(Code::kCancelled, "handoff: cancelled"));
      }) {
  MutexLock lock(mutex_);
  put_to_ = sent_to_ = landed_ = spec_.first;
  heard_at_ = std::chrono::steady_clock::now();
}

Outgoing::~Outgoing() {
  die(Status(Code::kCancelled, "handoff: dropped by the sender"));
  reader_.request_stop();
  writer_.request_stop();
  stream_->close();
}

Status Outgoing::send(FrameType type, const Json& json, std::span<const ConstBytes> payload) {
  const auto limits = IoLimits{std::chrono::steady_clock::now() + options_.ack_timeout, halt_.get_token()};
  ASSIGN_OR_RETURN(const uint64_t checksum,
                   write_frame(*stream_, type, sequence_++, {json, payload}, limits));
  checksums_.write(checksum);
  return {};
}

Status Outgoing::send_open() {
  TRY(check_fits_frames(spec_.layout, kMaxPayloadBytes));
  const Json open = open_json(spec_);
  if (const size_t bytes = dump_json(open).size(); bytes > kMaxJsonBytes) {
    return {Code::kInvalidArgument, "handoff OPEN: " + std::to_string(bytes) + " bytes for " +
                                        std::to_string(spec_.layout.planes.size()) + " planes, limit " +
                                        std::to_string(kMaxJsonBytes)};
  }
  TRY(send(FrameType::kOpen, open, {}));
  const auto limits = IoLimits{std::chrono::steady_clock::now() + options_.ack_timeout, halt_.get_token()};
  auto frame = read_frame(*stream_, 0, kNoPayload, limits);
  if (!frame.ok()) return frame.status();
  if (frame->type == FrameType::kAbort) return abort_status(frame->json);
  if (frame->type != FrameType::kAck) return {Code::kCorrupt, "handoff: OPEN was not acknowledged"};
  return {};
}

void Outgoing::die(const Status& why) {
  MutexLock lock(mutex_);
  if (dead_.ok() && !sealed_) dead_ = why;
  changed_.notify_all();
}

// Rows are on their way and nothing comes back: the receiver is frozen or gone.
void Outgoing::give_up_on_silence() {
  if (!dead_.ok() || sealed_ || std::chrono::steady_clock::now() < heard_at_ + options_.ack_timeout) return;
  dead_ = Status(Code::kDeadlineExceeded,
                 "handoff: no ACK for " + std::to_string(options_.ack_timeout.count() / 1000) + " s");
  changed_.notify_all();
}

bool Outgoing::has_room() const {
  MutexLock lock(mutex_);
  return !dead_.ok() || put_to_ - landed_ < int64_t{kWindowFrames} * spec_.layout.block_tokens;
}

Status Outgoing::put(int64_t first, int64_t last, Bytes planes) {
  MutexLock lock(mutex_);
  if (first != put_to_ || last <= first || last > spec_.last ||
      planes.size() != spec_.layout.block_bytes(first, last)) {
    return {Code::kInvalidArgument, "handoff: rows [" + std::to_string(first) + ", " + std::to_string(last) +
                                        ") after " + std::to_string(put_to_)};
  }
  while (dead_.ok() && queue_.size() >= options_.max_queued_blocks) changed_.wait(mutex_);
  if (!dead_.ok()) return dead_;
  put_to_ = last;
  queue_.push_back(Item{first, last, std::move(planes), false});
  changed_.notify_all();
  return {};
}

Status Outgoing::seal(int64_t last) {
  MutexLock lock(mutex_);
  if (last != put_to_)
    return {Code::kInvalidArgument,
            "handoff: seal at " + std::to_string(last) + ", rows to " + std::to_string(put_to_)};
  queue_.push_back(Item{last, last, {}, true});
  changed_.notify_all();
  heard_at_ = std::chrono::steady_clock::now();
  while (dead_.ok() && !sealed_) {
    (void)changed_.wait_until(mutex_, heard_at_ + options_.ack_timeout);
    give_up_on_silence();
  }
  return dead_;
}

// False when a frame was cut off: nothing more can be said on this connection.
bool Outgoing::let_writer_finish() {
  const MonotonicTime until = std::chrono::steady_clock::now() + kAbortGrace;
  {
    MutexLock lock(mutex_);
    while (writing_ && changed_.wait_until(mutex_, until)) {
    }
    if (!writing_) return true;
  }
  halt_.request_stop();
  return false;
}

void Outgoing::abort(const Status& why) {
  die(why);
  writer_.request_stop();
  const bool whole = let_writer_finish();
  if (writer_.joinable()) writer_.join();
  if (whole) (void)send(FrameType::kAbort, abort_json(why), {});
  stream_->close();
}

bool Outgoing::next_item(const std::stop_token& stop, Item* item) {
  const MonotonicTime ping_at = std::chrono::steady_clock::now() + options_.ping_every;
  MutexLock lock(mutex_);
  const auto window_full = [this]() REQUIRES(mutex_) {
    return sent_to_ - landed_ >= int64_t{kWindowFrames} * spec_.layout.block_tokens;
  };
  while (dead_.ok() && !stop.stop_requested() &&
         (queue_.empty() || (window_full() && !queue_.front().seal))) {
    if (changed_.wait_until(mutex_, ping_at)) continue;
    if (sent_to_ > landed_) give_up_on_silence();
    return dead_.ok();  // nothing to send: a ping is due
  }
  if (!dead_.ok() || stop.stop_requested()) return false;
  *item = std::move(queue_.front());
  queue_.pop_front();
  if (sent_to_ == landed_) heard_at_ = std::chrono::steady_clock::now();  // nothing was owed until now
  sent_to_ = item->last;
  writing_ = true;
  changed_.notify_all();
  return true;
}

void Outgoing::run_writer(const std::stop_token& stop) {
  const Status ended = without_exceptions([&] { return write_loop(stop); });
  if (!ended.ok()) die(ended);
}

Status Outgoing::write_loop(const std::stop_token& stop) {
  Item item;
  while (next_item(stop, &item)) {
    const Status sent = item.seal             ? send_seal(item.last)
                        : item.planes.empty() ? send(FrameType::kPing, Json::object(), {})
                                              : send_block(item);
    {
      MutexLock lock(mutex_);
      writing_ = false;
      changed_.notify_all();
    }
    if (!sent.ok() || item.seal) return sent;
    item = Item();
  }
  return {};
}

Status Outgoing::send_block(const Item& item) {
  for (const RowsMessage& m : split_block(spec_.layout, item.first, item.last, kMaxPayloadBytes)) {
    ASSIGN_OR_RETURN(const RowsPayload payload, rows_payload(spec_.layout, m, item.planes));
    std::vector<ConstBytes> parts = {payload.head};
    parts.insert(parts.end(), payload.planes.begin(), payload.planes.end());
    TRY(send(FrameType::kRows, rows_json(m), parts));
  }
  plane_bytes_ += item.planes.size();
  return {};
}

Status Outgoing::send_seal(int64_t last) {
  const uint32_t frames = sequence_;
  const std::string digest = hex64(xxh3_64(checksums_.bytes()));
  return send(FrameType::kSeal,
              {{"last", last}, {"frames", frames}, {"bytes", plane_bytes_}, {"digest", digest}}, {});
}

Status Outgoing::take_ack(const Frame& frame) {
  if (frame.type == FrameType::kAbort) return abort_status(frame.json);
  if (frame.type != FrameType::kAck)
    return {Code::kCorrupt, "handoff: unexpected " + std::string(frame_type_name(frame.type))};
  ASSIGN_OR_RETURN(const int64_t landed, get_int(frame.json, "landed", "handoff ACK"));
  ASSIGN_OR_RETURN(const auto sealed, find_bool(frame.json, "sealed", "handoff ACK"));
  MutexLock lock(mutex_);
  if (landed < landed_ || landed > sent_to_) {
    return {Code::kCorrupt,
            "handoff ACK: rows to " + std::to_string(landed) + ", sent to " + std::to_string(sent_to_)};
  }
  landed_ = landed;
  heard_at_ = std::chrono::steady_clock::now();
  sealed_ = sealed.value_or(false);
  changed_.notify_all();
  return {};
}

void Outgoing::run_reader(const std::stop_token& stop) {
  const Status ended = without_exceptions([&] { return read_loop(stop); });
  if (ended.ok()) return;
  die(ended);
  stream_->close();  // wakes a writer that waits for the socket
}

Status Outgoing::read_loop(const std::stop_token& stop) {
  for (uint32_t sequence = 1;; ++sequence) {  // 0 was the ACK of OPEN
    ASSIGN_OR_RETURN(const Frame frame,
                     read_frame(*stream_, sequence, kNoPayload, IoLimits{MonotonicTime::max(), stop}));
    TRY(take_ack(frame));
    MutexLock lock(mutex_);
    if (sealed_) return {};
  }
}

}  // namespace isthmus::handoff
