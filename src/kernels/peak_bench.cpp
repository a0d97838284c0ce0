// SPDX-License-Identifier: Apache-2.0
// What the machine gives: the active rung's multipliers when nothing comes from memory (twelve chains of the
// two dot primitives and of the fused multiply-add), and a plain read of memory; all cores. The roofs of the
// roofline picture.
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <benchmark/benchmark.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "kernels/bench_inputs.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak_bench.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/dot4-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

// Each returns the operations of one call, a multiply and an add counted as two.
#if ISTHMUS_SCALAR_PASS

int64_t run_f32(int64_t rounds) {
  float chain[12];
  for (int i = 0; i < 12; ++i) chain[i] = static_cast<float>(i);
  for (int64_t r = 0; r < rounds; ++r) {
    for (float& sum : chain) sum += sum * 0.5f;
    benchmark::DoNotOptimize(chain);
  }
  return rounds * 12 * 2;
}
int64_t run_bf16(int64_t rounds) {
  return run_f32(rounds);
}
int64_t run_int8(int64_t rounds) {
  return run_f32(rounds);
}

#else

using DF = hn::CappedTag<float, 16>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
constexpr int kChains = 12;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(DF()));

template <class D, class Step>
HWY_INLINE void run_chains(D d, int64_t rounds, const Step& step) {
  hn::Vec<D> chain[kChains];
  HWY_UNROLL(kChains)
  for (int i = 0; i < kChains; ++i) {
    int start = i;
    benchmark::DoNotOptimize(start);  // else the compiler sees twelve equal chains and keeps one
    chain[i] = hn::Set(d, static_cast<hn::TFromD<D> >(start));
  }
  for (int64_t r = 0; r < rounds; ++r) {
    HWY_UNROLL(kChains)
    for (int i = 0; i < kChains; ++i) chain[i] = step(chain[i]);
    benchmark::ClobberMemory();
  }
  auto sum = chain[0];
  HWY_UNROLL(kChains)
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, chain[i]);
  benchmark::DoNotOptimize(hn::GetLane(sum));
}

int64_t run_f32(int64_t rounds) {
  const auto x = hn::Set(DF(), 0.5f);
  run_chains(DF(), rounds, [&](auto sum) HWY_ATTR { return hn::MulAdd(x, x, sum); });
  return rounds * kChains * kLanes * 2;
}
int64_t run_bf16(int64_t rounds) {
#if ISTHMUS_HAS_DOT2_BF16
  const auto x = hn::Set(DU(), 0x3f003f00u);
  run_chains(DF(), rounds, [&](auto sum) HWY_ATTR { return dot2_bf16(DF(), x, x, sum); });
  return rounds * kChains * kLanes * 4;
#else
  return run_f32(rounds);  // not asked for
#endif
}
int64_t run_int8(int64_t rounds) {
  const auto x = hn::Set(DI(), 0x01010101);
  run_chains(DI(), rounds, [&](auto sum) HWY_ATTR { return dot4_u8s8<true>(x, x, sum); });
  return rounds * kChains * kLanes * 8;
}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {

HWY_EXPORT(run_f32);
HWY_EXPORT(run_bf16);
HWY_EXPORT(run_int8);

double run_multipliers(Multipliers kind) {
  constexpr int64_t kRounds = 1 << 18;
  std::vector<int64_t> operations(static_cast<size_t>(thread_count()));
  parallel_rows(thread_count(), 1, 0, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t& done = operations[static_cast<size_t>(t)];
      if (kind == Multipliers::kF32) done = ISTHMUS_DISPATCH(run_f32)(kRounds);
      if (kind == Multipliers::kBf16) done = ISTHMUS_DISPATCH(run_bf16)(kRounds);
      if (kind == Multipliers::kInt8) done = ISTHMUS_DISPATCH(run_int8)(kRounds);
    }
  });
  return static_cast<double>(std::accumulate(operations.begin(), operations.end(), int64_t{0}));
}

namespace {

void peak(benchmark::State& state, Multipliers kind) {
  use_all_cores();
  double operations = 0;
  for (auto _ : state) operations = run_multipliers(kind);
  state.counters["FLOP/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
}
void read_memory(benchmark::State& state) {
  use_all_cores();
  const ReadBuffer data;
  for (auto _ : state) benchmark::DoNotOptimize(data.read());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(kStepBytes));
}
BENCHMARK(read_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
[[maybe_unused]] const bool registered = [] {
  for (const Multipliers kind : {Multipliers::kF32, Multipliers::kBf16, Multipliers::kInt8}) {
    if (kind == Multipliers::kBf16 && !multiplies_bf16(active_rung())) continue;
    benchmark::RegisterBenchmark(peak_name(kind), [kind](benchmark::State& state) { peak(state, kind); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
