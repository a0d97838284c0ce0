// SPDX-License-Identifier: Apache-2.0
// Microbenchmarks only: the loop of a benchmark whose instructions scripts/instruction-counts counts. What a
// benchmark does before and behind it is not counted. One thread; nothing in it may depend on time, chance or
// the number of cores. Not for kernels, whose benchmarks measure time.
#pragma once

#include <alloca.h>
#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>

namespace isthmus {

// bench/instructions.py knows this function by its name, so it is no template, and it must stay a function of
// its own. Call counted_iterations instead.
[[gnu::noinline]] inline void counted_loop(benchmark::State& state, const std::function<void()>& once) {
  for (auto _ : state) once();
}

// Runs `once` for each iteration that the benchmark was registered with (->Iterations(n)). memcmp and its
// like take other ways near the end of a page, and where the stack begins depends on environment and kernel:
// the loop's part of it starts at one and the same place of a page.
[[gnu::noinline]] inline void counted_iterations(benchmark::State& state, const std::function<void()>& once) {
  constexpr uintptr_t kPageBytes = 4096;
  benchmark::DoNotOptimize(alloca(reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) % kPageBytes + 1));
  counted_loop(state, once);
}

}  // namespace isthmus
