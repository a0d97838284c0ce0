// SPDX-License-Identifier: Apache-2.0
// One blocking wait on a socket that a stop token or another thread can end at once: poll(2) over the socket
// and a wake pipe. Internal to net/. One waiting thread per WakePoll; wake() from any thread.
#pragma once

#include <atomic>

#include "base/status.h"
#include "net/byte_stream.h"

namespace isthmus {

class WakePoll {
 public:
  WakePoll() = default;
  ~WakePoll();
  WakePoll(const WakePoll&) = delete;
  WakePoll& operator=(const WakePoll&) = delete;

  Status open();  // kIo when no pipe can be had

  // Until fd is ready for events (POLLIN, POLLOUT) or has failed; the next system call on it tells which.
  // kCancelled: stop requested or wake() called, kDeadlineExceeded, kIo. where begins the message.
  Status wait(int fd, short events, const IoLimits& limits, const char* where);

  // Ends the running wait and every later one.
  void wake();

 private:
  void ring();

  int read_fd_ = -1;
  int write_fd_ = -1;
  std::atomic<bool> woken_{false};
};

}  // namespace isthmus
