// SPDX-License-Identifier: Apache-2.0
// A mutex that clang's thread-safety analysis understands, and the condition variable that goes with it.
// Members behind a mutex are GUARDED_BY it. Prefer values and queues between threads over shared state.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#if defined(__clang__)
#define ISTHMUS_TSA(x) __attribute__((x))
#else
#define ISTHMUS_TSA(x)
#endif
#define GUARDED_BY(m) ISTHMUS_TSA(guarded_by(m))
#define REQUIRES(...) ISTHMUS_TSA(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) ISTHMUS_TSA(locks_excluded(__VA_ARGS__))

namespace isthmus {

class ISTHMUS_TSA(capability("mutex")) Mutex {
 public:
  void lock() ISTHMUS_TSA(acquire_capability()) { m_.lock(); }
  void unlock() ISTHMUS_TSA(release_capability()) { m_.unlock(); }

 private:
  std::mutex m_;
};

class ISTHMUS_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& m) ISTHMUS_TSA(acquire_capability(m)) : m_(m) { m_.lock(); }
  ~MutexLock() ISTHMUS_TSA(release_capability()) { m_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& m_;
};

// Waits are called with the mutex held and return with it held.
class CondVar {
 public:
  void notify_one() { cv_.notify_one(); }
  void notify_all() { cv_.notify_all(); }
  void wait(Mutex& m) REQUIRES(m) { cv_.wait(m); }
  // False when `deadline` passed.
  template <typename Clock, typename Duration>
  bool wait_until(Mutex& m, std::chrono::time_point<Clock, Duration> deadline) REQUIRES(m) {
    return cv_.wait_until(m, deadline) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable_any cv_;
};

}  // namespace isthmus
