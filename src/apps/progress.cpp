// SPDX-License-Identifier: Apache-2.0
#include "apps/progress.h"

#include <cstdio>
#include <utility>

#include "base/process.h"

namespace isthmus {
namespace {

constexpr auto kSilence = std::chrono::seconds(2);
constexpr auto kTerminalEvery = std::chrono::milliseconds(200);
constexpr auto kLineEvery = std::chrono::seconds(10);

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(stderr_is_terminal()), started_(Clock::now()) {}

Progress::~Progress() {
  if (dirty_) std::fputs("\r\033[K", stderr);
}

void Progress::update(const std::string& doing, int64_t done, int64_t total) {
  const Clock::time_point now = Clock::now();
  if (now - started_ < kSilence || now - shown_ < (terminal_ ? Clock::duration(kTerminalEvery) : kLineEvery))
    return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const int64_t percent = total > 0 ? done * 100 / total : 0;
  std::fprintf(stderr, "%s%s: %s, %lld %% after %.0f s%s", terminal_ ? "\r\033[K" : "", what_.c_str(),
               doing.c_str(), static_cast<long long>(percent), seconds, terminal_ ? "" : "\n");
  dirty_ = terminal_;
}

}  // namespace isthmus
