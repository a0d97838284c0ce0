// SPDX-License-Identifier: Apache-2.0
#include "decode/session.h"

namespace isthmus {

void StreamChannel::push(TokenEvent event) {
  MutexLock lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_one();
}

void StreamChannel::finish(const GenerateStats& stats, Status status) {
  MutexLock lock(mutex_);
  stats_ = stats;
  end_ = std::move(status);
  changed_.notify_one();
}

Result<std::optional<TokenEvent>> StreamChannel::pop() {
  MutexLock lock(mutex_);
  while (events_.empty() && !end_) changed_.wait(mutex_);
  if (!events_.empty()) {
    std::optional<TokenEvent> event(std::move(events_.front()));
    events_.pop_front();
    return event;
  }
  if (!end_->ok()) return *end_;
  return std::optional<TokenEvent>();
}

GenerateStats StreamChannel::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace isthmus
