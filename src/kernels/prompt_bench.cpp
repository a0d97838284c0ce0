// SPDX-License-Identifier: Apache-2.0
// Speed of the prompt kernels on SmolLM2-135M's shapes. The GEMM rows are the yardstick: the rest is worth
// reading as a share of them, from one run (other work on the machine lowers all alike).
#include <benchmark/benchmark.h>

#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/bench_inputs.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/rung.h"

namespace isthmus::kernels {
namespace {

void report_flops(benchmark::State& state, double flops) {
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// threads, M, N, K
void time_gemm(benchmark::State& state) {
  set_threads(state.range(0));
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  Result<PackedMatrix> w = PackedMatrix::pack(ramp(n * k).data(), n, k);
  const std::vector<bf16> in = ramp(m * k);
  isthmus::AlignedBuffer<float> out(static_cast<size_t>(m * n));
  for (auto _ : state) gemm(*w, in.data(), m, out.data());
  report_flops(state, 2.0 * static_cast<double>(m * n * k));
}

void BM_Gemm(benchmark::State& state) {
  time_gemm(state);
}

// With instructions for bf16, where the CPU has them: what engines get that always use them (bench/peers.py).
void BM_GemmBf16(benchmark::State& state) {
  const Rung preferred = active_rung();
  if (!set_rung(Rung::kAvx512Bf16)) return state.SkipWithError("no such instructions");
  time_gemm(state);
  set_rung(preferred);
}

void gemm_shapes(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2}) {
    for (const auto& [n, k] : {std::pair{576, 576}, {384, 576}, {3072, 576}, {576, 1536}, {2048, 2048}})
      b->Args({threads, 512, n, k});
  }
}
BENCHMARK(BM_Gemm)->Apply(gemm_shapes)->UseRealTime();
BENCHMARK(BM_GemmBf16)->Args({2, 512, 3072, 576})->UseRealTime();

// Rounding of the activations included.
void BM_GemmInt8(benchmark::State& state) {
  set_threads(state.range(0));
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  std::vector<float> weights(static_cast<size_t>(n * k));
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(i * 40503u % 1024u) * 0x1p-9f - 1.0f;
  Result<PackedMatrix> w = PackedMatrix::pack_int8(weights.data(), n, k);
  const std::vector<bf16> in = ramp(m * k);
  isthmus::AlignedBuffer<float> out(static_cast<size_t>(m * n));
  for (auto _ : state) gemm(*w, in.data(), m, out.data());
  report_flops(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(BM_GemmInt8)->Apply(gemm_shapes)->UseRealTime();

void BM_GemmF32(benchmark::State& state) {
  set_threads(state.range(0));
  const int64_t m = state.range(1), n = state.range(2), k = state.range(3);
  const std::vector<float> weights(static_cast<size_t>(n * k), 0.5f), in(static_cast<size_t>(m * k), 0.25f);
  Result<PackedMatrix> w = PackedMatrix::pack(weights.data(), n, k);
  std::vector<float> out(static_cast<size_t>(m * n));
  for (auto _ : state) gemm(*w, in.data(), m, out.data());
  report_flops(state, 2.0 * static_cast<double>(m * n * k));
}
BENCHMARK(BM_GemmF32)->Args({1, 512, 576, 576})->Args({1, 512, 576, 1536})->UseRealTime();

// threads, context (keys before the chunk), chunk. Arithmetic counted: the causal half only.
void BM_AttentionPrompt(benchmark::State& state) {
  set_threads(state.range(0));
  const int64_t context = state.range(1), n = state.range(2);
  constexpr int kHeads = BenchCache::kHeads, kDim = BenchCache::kDim;
  BenchCache cache(1, 1, context + n);
  const std::vector<bf16> q = ramp(n * kHeads * kDim);
  std::vector<bf16> out(q.size());
  for (auto _ : state)
    attention_prompt(cache.view(0, 0), BenchCache::kShape, q.data(), context, n, out.data());
  const double pairs =
      static_cast<double>(n) * (static_cast<double>(context) + static_cast<double>(n + 1) / 2);
  report_flops(state, 4.0 * kDim * kHeads * pairs);
}
BENCHMARK(BM_AttentionPrompt)
    ->ArgsProduct({{1, 2}, {0, 1024, 4096, 8192}, {512}})
    ->Args({1, 4096, 64})
    ->Args({1, 4096, 1})
    ->UseRealTime();

constexpr int64_t kRows = 512, kWidth = 576, kFeed = 1536;

void BM_RmsNorm(benchmark::State& state) {
  set_threads(1);
  const std::vector<float> x(kRows * kWidth, 0.5f), w(kWidth, 1.0f);
  std::vector<bf16> y(x.size());
  for (auto _ : state) rms_norm(x.data(), w.data(), 1e-5f, kRows, kWidth, y.data());
}
BENCHMARK(BM_RmsNorm)->UseRealTime();

void BM_SiluMul(benchmark::State& state) {
  set_threads(1);
  const std::vector<float> x(kRows * 2 * kFeed, 0.5f);
  std::vector<bf16> y(kRows * kFeed);
  for (auto _ : state) silu_mul(x.data(), kRows, kFeed, y.data());
}
BENCHMARK(BM_SiluMul)->UseRealTime();

void BM_Rope(benchmark::State& state) {
  set_threads(1);
  std::vector<float> x(kRows * kWidth, 0.5f);
  const std::vector<float> cos(kRows * 32, 0.8f), sin(kRows * 32, 0.6f);
  for (auto _ : state) rope(x.data(), kRows, {9, 64, 64, RopePairs::kHalfSplit}, cos.data(), sin.data());
}
BENCHMARK(BM_Rope)->UseRealTime();

void BM_KvAppend(benchmark::State& state) {
  BenchCache cache(1, 1, kRows);
  const std::vector<float> k(kRows * BenchCache::kKvHeads * BenchCache::kDim, 0.5f);
  for (auto _ : state) kv_append(cache.view(0, 0), 0, kRows, k.data(), k.data());
}
BENCHMARK(BM_KvAppend)->UseRealTime();

}  // namespace
}  // namespace isthmus::kernels
