// SPDX-License-Identifier: Apache-2.0
#include "net/handler_pool.h"

#include <system_error>
#include <utility>

namespace isthmus {

bool HandlerPool::submit(std::function<void()> job) {
  const MutexLock lock(mutex_);
  if (stopping_) return false;
  const bool idle_thread = idle_ > jobs_.size();
  if (!idle_thread && threads_.size() < static_cast<size_t>(max_threads_)) {
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) return false;  // no thread will ever take it
    }
  } else if (!idle_thread && jobs_.size() >= static_cast<size_t>(max_queued_)) {
    return false;
  }
  jobs_.push_back(std::move(job));
  changed_.notify_one();
  return true;
}

void HandlerPool::run() {
  while (true) {
    std::function<void()> job;
    {
      const MutexLock lock(mutex_);
      ++idle_;
      while (jobs_.empty() && !stopping_) changed_.wait(mutex_);
      --idle_;
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void HandlerPool::stop() {
  std::deque<std::function<void()>> dropped;
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
    threads.swap(threads_);
    changed_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace isthmus
