// SPDX-License-Identifier: Apache-2.0
// Splitting independent rows over the OpenMP team. Called by the engine thread; the serial build runs them in
// order. Rows must not depend on one another: the split follows the thread count.
#pragma once

#include <algorithm>
#include <cstdint>

#ifndef ISTHMUS_COMPUTE_SERIAL
#include <omp.h>

#include <atomic>
#include <vector>
#endif

namespace isthmus::kernels {

inline int thread_count() {
#ifdef ISTHMUS_COMPUTE_SERIAL
  return 1;
#else
  return omp_get_max_threads();
#endif
}

// f(begin, end) on disjoint ranges covering [0, n); one call when the whole is less work than `minimum` units
// a thread. A fork and join costs a few microseconds.
template <typename F>
void parallel_rows(int64_t n, int64_t work_per_row, int64_t minimum, const F& f) {
  const int64_t wanted = minimum > 0 ? n * work_per_row / minimum : n;
  const int threads = static_cast<int>(std::clamp<int64_t>(std::min(wanted, n), 1, thread_count()));
  if (threads <= 1) {
    f(int64_t{0}, n);
    return;
  }
#ifndef ISTHMUS_COMPUTE_SERIAL
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int t = 0; t < threads; ++t) f(n * t / threads, n * (t + 1) / threads);
#endif
}

// f(i) for each i in [0, n), in any order, taken one by one by whichever thread is free; on the calling
// thread alone where the whole is less than `minimum` units of work.
template <typename F>
void parallel_items(int64_t n, [[maybe_unused]] int64_t work, [[maybe_unused]] int64_t minimum, const F& f) {
#ifdef ISTHMUS_COMPUTE_SERIAL
  for (int64_t i = 0; i < n; ++i) f(i);
#else
#pragma omp parallel for schedule(dynamic, 1) if (n > 1 && work >= minimum)
  for (int64_t i = 0; i < n; ++i) f(i);
#endif
}

// f(group, item, first) for every item of every group. Threads begin with different groups, and each stays
// with one while it has items left: `first` says that this thread has just come to the group, and may
// prepare what its items share. On the calling thread alone where the whole is less than `minimum` units.
template <typename F>
void parallel_groups(int64_t groups, int64_t items, [[maybe_unused]] int64_t work,
                     [[maybe_unused]] int64_t minimum, const F& f) {
#ifdef ISTHMUS_COMPUTE_SERIAL
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t i = 0; i < items; ++i) f(g, i, i == 0);
#else
  std::vector<std::atomic<int64_t> > next(static_cast<size_t>(groups));
#pragma omp parallel if (groups * items > 1 && work >= minimum)
  {
    const int64_t begin = omp_get_thread_num() * groups / omp_get_num_threads();
    for (int64_t visit = 0; visit < groups; ++visit) {
      const int64_t g = (begin + visit) % groups;
      bool first = true;
      for (int64_t i; (i = next[static_cast<size_t>(g)].fetch_add(1, std::memory_order_relaxed)) < items;
           first = false)
        f(g, i, first);
    }
  }
#endif
}

}  // namespace isthmus::kernels
