// SPDX-License-Identifier: Apache-2.0
// Progress of a tool on standard error: one line that is rewritten on a terminal, a line every few seconds
// elsewhere. Silent for what is over within two seconds. One thread. Not a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace isthmus {

class Progress {
 public:
  explicit Progress(std::string what);  // "eval"
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // clears the line

  // `done` of `total` units of the whole; `doing` says what is at work.
  void update(const std::string& doing, int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const bool terminal_;
  const Clock::time_point started_;
  Clock::time_point shown_;
  bool dirty_ = false;  // the terminal's line holds text
};

}  // namespace isthmus
