// SPDX-License-Identifier: Apache-2.0
// Weight bytes per second of step_linear, KV bytes per second of attention_step, and the plain read rate to
// compare with.
#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/parallel.h"
#include "kernels/step_linear.h"

namespace isthmus::kernels {
namespace {

// Larger than any last-level cache that one core pair has to itself here.
constexpr size_t kColdBytes = size_t{192} << 20;

void read_memory(benchmark::State& state) {
  const std::vector<uint64_t> data(kColdBytes / 8, 1);
  for (auto _ : state) {
    parallel_rows(thread_count(), 1, 0, [&](int64_t begin, int64_t end) {
      const size_t per = data.size() / static_cast<size_t>(thread_count());
      uint64_t sum[8] = {};
      const uint64_t* p = data.data() + static_cast<size_t>(begin) * per;
      for (size_t i = 0; i < static_cast<size_t>(end - begin) * per; i += 8) {
        for (size_t j = 0; j < 8; ++j) sum[j] += p[i + j];
      }
      for (const uint64_t s : sum) benchmark::DoNotOptimize(s);
    });
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * data.size() * 8));
}
BENCHMARK(read_memory)->UseRealTime()->Unit(benchmark::kMillisecond);

struct Shape {
  int64_t n, k;
};
// SmolLM2-135M: fused QKV, output, fused gate/up, down; head.
constexpr Shape kLayer[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr Shape kHead[] = {{49152, 576}};
constexpr Shape kSuper[] = {{1024, 768}, {768, 768}, {3072, 768}, {768, 1536}};  // rows of whole 256 blocks

std::vector<StepMatrix> make_matrices(DType t, const std::vector<Shape>& shapes) {
  std::mt19937 rng(1);
  std::vector<StepMatrix> out;
  size_t total = 0;
  while (total < kColdBytes / 2) {
    for (const Shape& s : shapes) {
      std::vector<std::byte> file(static_cast<size_t>(s.n) * row_bytes(t, s.k));
      for (size_t i = 0; i + 4 <= file.size(); i += 4) {
        const uint32_t v = rng() & 0xbbbbbbbbu;  // keeps every f16 and bf16 finite
        std::memcpy(file.data() + i, &v, 4);
      }
      out.push_back(StepMatrix::pack(t, file.data(), s.n, s.k).take());
      total += out.back().bytes();
    }
  }
  return out;
}

void linear(benchmark::State& state, DType t, std::vector<Shape> shapes) {
  const std::vector<StepMatrix> matrices = make_matrices(t, shapes);
  const int rows = static_cast<int>(state.range(0));
  const std::vector<float> in(16 * 1536, 0.5f);
  std::vector<float> out(16 * 49152);
  int64_t bytes = 0;
  for (const StepMatrix& w : matrices) bytes += static_cast<int64_t>(w.bytes());
  for (auto _ : state) {
    for (const StepMatrix& w : matrices) step_linear(w, in.data(), rows, out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * bytes);
}

// args: context, rows. SmolLM2's 9 heads on 3 KV heads of 64, 30 layers of distinct cache.
void attention(benchmark::State& state) {
  const int64_t context = state.range(0);
  const int rows = static_cast<int>(state.range(1));
  const int64_t pages = (context + kPageTokens - 1) / kPageTokens;
  const size_t page_bytes = size_t{2} * 3 * kPageTokens * 64 * 2;
  std::vector<std::byte> cache(static_cast<size_t>(30 * rows * pages) * page_bytes);
  for (size_t i = 0; i < cache.size(); ++i)
    cache[i] = static_cast<std::byte>(i % 2 ? 0x3d + (i * 7 >> 9) % 3 : i * 31);
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (size_t p = 0; p < table.size(); ++p) table[p] = static_cast<int32_t>(p);
  std::vector<float> q(static_cast<size_t>(rows) * 9 * 64, 0.1f), out(q.size());
  const AttentionShape shape{9, 0.125f, 0};
  for (auto _ : state) {
    for (int64_t layer = 0; layer < 30; ++layer) {
      std::vector<StepAttentionRow> call;
      for (int64_t r = 0; r < rows; ++r) {
        std::byte* base = cache.data() + static_cast<size_t>((layer * rows + r) * pages) * page_bytes;
        call.push_back({{base, page_bytes, table.data(), 3, 64, DType::kBF16}, context - 1});
      }
      attention_step(call.data(), rows, shape, q.data(), out.data());
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * 30 * rows * context * 768);
}
BENCHMARK(attention)->Args({7680, 1})->Args({512, 1})->Args({1024, 4})->UseRealTime()->Unit(
    benchmark::kMillisecond);

[[maybe_unused]] const bool registered = [] {
  const std::vector<Shape> layer(std::begin(kLayer), std::end(kLayer)),
      head(std::begin(kHead), std::end(kHead)), super(std::begin(kSuper), std::end(kSuper));
  const auto add = [](DType t, const char* what, const std::vector<Shape>& shapes) {
    const std::string name = "linear/" + std::string(dtype_info(t).name) + "/" + what;
    auto* b = benchmark::RegisterBenchmark(name.c_str(),
                                           [t, shapes](benchmark::State& s) { linear(s, t, shapes); });
    b->Arg(1)->Arg(4)->Arg(16)->UseRealTime()->Unit(benchmark::kMillisecond);
  };
  for (const DType t : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_0, DType::kQ5_1, DType::kMxfp4,
                        DType::kBF16, DType::kF16, DType::kF32}) {
    add(t, "layer", layer);
  }
  add(DType::kQ8_0, "head", head);
  for (const DType t : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) add(t, "layer", super);
  return true;
}();

}  // namespace
}  // namespace isthmus::kernels
