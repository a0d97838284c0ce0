// SPDX-License-Identifier: Apache-2.0
// Starting threads, and keeping the standard library's exceptions (no thread left, no memory left) from
// ending the process: they become a Status at the place that can refuse one piece of work. Any thread. Not a
// pool.
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <stop_token>
#include <string>
#include <thread>

#include "base/status.h"

namespace isthmus {

// kResourceExhausted when the system has no thread or memory left. `body` must not throw.
Result<std::jthread> start_thread(std::function<void(std::stop_token)> body);

// What `work` returns, a Status; kResourceExhausted when it throws for want of memory, kInternal for any
// other standard exception.
template <typename Work>
Status without_exceptions(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return {Code::kResourceExhausted, "out of memory"};
  } catch (const std::exception& e) {
    return {Code::kInternal, std::string("unexpected: ") + e.what()};
  }
}

}  // namespace isthmus
