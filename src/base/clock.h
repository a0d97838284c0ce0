// SPDX-License-Identifier: Apache-2.0
// Time as the code sees it: a monotonic clock for deadlines and intervals, wall time for stamps. Behind an
// interface so that tests move it by hand. Any thread.
#pragma once

#include <chrono>

namespace isthmus {

using MonotonicTime = std::chrono::steady_clock::time_point;
using Millis = std::chrono::milliseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime now() const = 0;
  virtual std::chrono::system_clock::time_point wall_now() const = 0;
};

class SystemClock final : public Clock {
 public:
  MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall_now() const override { return std::chrono::system_clock::now(); }
  static const SystemClock& instance() {
    static const SystemClock clock;
    return clock;
  }
};

inline double seconds_between(MonotonicTime from, MonotonicTime to) {
  return std::chrono::duration<double>(to - from).count();
}
inline double seconds_since(MonotonicTime from) {
  return seconds_between(from, std::chrono::steady_clock::now());
}

}  // namespace isthmus
