// SPDX-License-Identifier: Apache-2.0
#include "net/wake_poll.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

namespace isthmus {
namespace {

// Rounded up, so that a wait never ends a moment before its deadline and spins.
int timeout_ms(std::chrono::steady_clock::time_point deadline) {
  if (deadline == std::chrono::steady_clock::time_point::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

}  // namespace

WakePoll::~WakePoll() {
  if (read_fd_ >= 0) ::close(read_fd_);
  if (write_fd_ >= 0) ::close(write_fd_);
}

Status WakePoll::open() {
  int fds[2];
  if (::pipe(fds) != 0) return Status(Code::kIo, std::string("wake_poll: pipe: ") + std::strerror(errno));
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  for (const int fd : fds) {
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return Status();
}

void WakePoll::ring() {
  const char byte = 1;
  // A full pipe already holds a wake-up.
  [[maybe_unused]] const ssize_t written = ::write(write_fd_, &byte, 1);
}

void WakePoll::wake() {
  woken_ = true;
  ring();
}

Status WakePoll::wait(int fd, short events, const IoLimits& limits, const char* where) {
  const std::stop_callback on_stop(limits.stop, [this] { ring(); });
  const auto deadline = limits.end_of_wait();
  while (true) {
    if (woken_) return Status(Code::kCancelled, std::string(where) + ": closed here");
    if (limits.stop.stop_requested())
      return Status(Code::kCancelled, std::string(where) + ": stop requested");
    pollfd fds[2] = {{fd, events, 0}, {read_fd_, POLLIN, 0}};
    const int ready = ::poll(fds, 2, timeout_ms(deadline));
    if (ready < 0 && errno != EINTR) {
      return Status(Code::kIo, std::string(where) + ": poll: " + std::strerror(errno));
    }
    if (ready <= 0) {
      if (ready == 0) return Status(Code::kDeadlineExceeded, std::string(where) + ": deadline passed");
      continue;
    }
    if (fds[1].revents != 0) {
      // A ring may be left over from an earlier wait's token: take it out and look at the flags again.
      char drain[64];
      while (::read(read_fd_, drain, sizeof drain) > 0) {
      }
      if (woken_ || limits.stop.stop_requested()) continue;
    }
    if (fds[0].revents != 0) return Status();
  }
}

}  // namespace isthmus
