// SPDX-License-Identifier: Apache-2.0
// Threads that run HTTP handlers: started on demand up to a maximum, kept until stop(). Internal to net/.
// submit() from any thread; stop() from none of the pool's own. Not a compute pool: jobs mostly wait.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/sync.h"

namespace isthmus {

class HandlerPool {
 public:
  HandlerPool(int max_threads, int max_queued) : max_threads_(max_threads), max_queued_(max_queued) {}
  ~HandlerPool() { stop(); }

  // False when every thread is busy and the queue is full, or after stop(). Jobs must not throw.
  bool submit(std::function<void()> job);

  // Drops what has not begun, waits for what runs, joins.
  void stop();

 private:
  void run();

  const int max_threads_;
  const int max_queued_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> jobs_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  size_t idle_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace isthmus
