// SPDX-License-Identifier: Apache-2.0
// The state of one expected transfer, shared by the thread that waits for it and the connection that fills
// it. The connection thread alone touches the sink; everything else is behind the mutex.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/sync.h"
#include "flow/transfer.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

class Incoming {
 public:
  Incoming(TransferSpec spec, std::unique_ptr<RowSink> sink);

  const TransferSpec& spec() const { return spec_; }
  RowSink& sink() { return *sink_; }  // connection thread

  // The first connection that names this transfer gets it; another, or one after the end, does not.
  bool claim(std::function<void()> close_connection) EXCLUDES(mutex_);
  // The connection thread is done with the sink; ok: after a seal. An end that came before stays.
  void let_go(const Status& ended) EXCLUDES(mutex_);

  void rows_landed(int64_t last, uint64_t payload_bytes) EXCLUDES(mutex_);
  void frame_seen() EXCLUDES(mutex_);
  void fail(const Status& why) EXCLUDES(mutex_);  // the first end stays; closes the connection

  TransferState state() const EXCLUDES(mutex_);
  TransferState wait_until(MonotonicTime deadline, const std::stop_token& cancel) EXCLUDES(mutex_);
  // Ends the transfer and returns once no connection thread uses it.
  void retire() EXCLUDES(mutex_);

 private:
  double elapsed() const { return seconds_since(expected_at_); }

  const TransferSpec spec_;
  const std::unique_ptr<RowSink> sink_;
  const MonotonicTime expected_at_;
  mutable Mutex mutex_;
  CondVar changed_;
  TransferState state_ GUARDED_BY(mutex_);
  bool claimed_ GUARDED_BY(mutex_) = false;
  bool in_use_ GUARDED_BY(mutex_) = false;
  std::function<void()> close_connection_ GUARDED_BY(mutex_);
};

}  // namespace isthmus::handoff
