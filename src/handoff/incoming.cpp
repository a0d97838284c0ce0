// SPDX-License-Identifier: Apache-2.0
#include "handoff/incoming.h"

namespace isthmus::handoff {

Incoming::Incoming(TransferSpec spec, std::unique_ptr<RowSink> sink)
    : spec_(std::move(spec)), sink_(std::move(sink)), expected_at_(std::chrono::steady_clock::now()) {
  state_.landed = spec_.first;
}

bool Incoming::claim(std::function<void()> close_connection) {
  MutexLock lock(mutex_);
  if (claimed_ || state_.ended) return false;
  claimed_ = true;
  in_use_ = true;
  close_connection_ = std::move(close_connection);
  return true;
}

void Incoming::let_go(const Status& ended) {
  MutexLock lock(mutex_);
  close_connection_ = nullptr;
  in_use_ = false;
  if (!state_.ended) {
    state_.ended = true;
    state_.sealed = ended.ok();
    state_.error = ended;
    if (ended.ok()) state_.sealed_s = elapsed();
  }
  changed_.notify_all();
}

void Incoming::frame_seen() {
  MutexLock lock(mutex_);
  ++state_.frames;
}

void Incoming::rows_landed(int64_t last, uint64_t payload_bytes) {
  MutexLock lock(mutex_);
  if (state_.first_rows_s == 0) state_.first_rows_s = elapsed();
  state_.last_rows_s = elapsed();
  state_.landed = last;
  state_.payload_bytes += payload_bytes;
  changed_.notify_all();
}

void Incoming::fail(const Status& why) {
  MutexLock lock(mutex_);
  if (state_.ended) return;
  state_.ended = true;
  state_.error = why;
  if (close_connection_) close_connection_();
  changed_.notify_all();
}

TransferState Incoming::state() const {
  MutexLock lock(mutex_);
  return state_;
}

TransferState Incoming::wait_until(MonotonicTime deadline, const std::stop_token& cancel) {
  const std::stop_callback wake(cancel, [this] {
    MutexLock lock(mutex_);
    changed_.notify_all();
  });
  MutexLock lock(mutex_);
  while (!state_.ended && !cancel.stop_requested() && changed_.wait_until(mutex_, deadline)) {
  }
  return state_;
}

void Incoming::retire() {
  fail(Status(Code::kCancelled, "handoff: the transfer is no longer expected"));
  MutexLock lock(mutex_);
  if (close_connection_) close_connection_();
  while (in_use_) changed_.wait(mutex_);
}

}  // namespace isthmus::handoff
