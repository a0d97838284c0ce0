// SPDX-License-Identifier: Apache-2.0
// parallel_for for load-time work: splits [0, n) into even ranges over short-lived threads. Any thread may
// call; returns when all is done. Not for kernels, which have their own OpenMP team.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace isthmus {

// fn(begin, end) on disjoint ranges of at least `grain` items; fn must not throw.
template <typename Fn>
void parallel_for(int64_t n, int64_t grain, const Fn& fn) {
  const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(1, grain), 1, cores);
  std::vector<std::jthread> threads;
  for (int64_t i = 1; i < parts; ++i) {
    threads.emplace_back([&fn, n, parts, i] { fn(n * i / parts, n * (i + 1) / parts); });
  }
  if (n > 0) fn(int64_t{0}, n / parts);
}

}  // namespace isthmus
