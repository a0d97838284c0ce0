// SPDX-License-Identifier: Apache-2.0
// Kernels of prompts and steps, measured in two ways. kernel/NAME: rates, and how many operations there are
// for a byte (the roofline picture). regression/NAME: `share`, its rate as a share of what limits it, median
// of nine (bench/kernel_regression.py). The limit is measured right before and right after, by a loop that
// uses none of our kernels: a read of memory for kernels with few operations for a byte, multipliers kept
// busy from registers for others.
#ifndef ISTHMUS_COMPUTE_SERIAL
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/bench_inputs.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/rung.h"
#include "kernels/step_linear.h"

namespace isthmus::kernels {
namespace {

using Work = std::function<void()>;
using Make = std::function<Work()>;  // inputs are made when the benchmark runs

constexpr int kSamples = 9;
constexpr double kSampleSeconds = 0.015;  // at least; a kernel that is shorter runs several times

double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Kernel {
  std::string name;
  Multipliers multipliers;
  double operations;  // of one call, a multiply and an add counted as two
  double bytes;       // operands and results, each once
  Make make;

  // CPUs have 5 to 25 operations for a byte that they read.
  bool reads() const { return operations < 8 * bytes; }
};

// What limits the kernel: bytes or operations a second.
std::function<double()> make_limit(const Kernel& kernel) {
  if (kernel.reads()) {
    return [buffer = std::make_shared<ReadBuffer>()] {
      return static_cast<double>(kStepBytes) / seconds([&] { benchmark::DoNotOptimize(buffer->read()); });
    };
  }
  return [kind = kernel.multipliers] {
    double operations = 0;
    const double time = seconds([&] { operations = run_multipliers(kind); });
    return operations / time;
  };
}

void measure(benchmark::State& state, const Kernel& kernel) {
  use_all_cores();
  const std::function<double()> limit = make_limit(kernel);
  const Work work = kernel.make();
  limit();
  work();
  const double once = std::min(seconds(work), seconds(work));
  const int repeats = std::max(1, static_cast<int>(kSampleSeconds / once));
  std::vector<double> shares;
  for (auto _ : state) {
    const double before = limit();
    double time = 0;
    for (int i = 0; i < repeats; ++i) time += seconds(work);
    const double after = limit();
    const double rate = (kernel.reads() ? kernel.bytes : kernel.operations) * repeats / time;
    shares.push_back(rate / ((before + after) / 2));
  }
  std::nth_element(shares.begin(), shares.begin() + kSamples / 2, shares.end());
  state.SetLabel(std::string(rung_name(active_rung())));
  state.counters["share"] = shares[kSamples / 2];
  state.counters["threads"] = thread_count();
}

Work run_gemms(std::vector<PackedMatrix> packed) {
  auto matrices = std::make_shared<std::vector<PackedMatrix>>(std::move(packed));
  auto in = std::make_shared<std::vector<bf16>>(ramp(512 * 1536));
  auto out = std::make_shared<isthmus::AlignedBuffer<float>>(512 * 3072);  // as the engine's
  return [matrices, in, out] {
    for (const PackedMatrix& w : *matrices) gemm(w, in->data(), 512, out->data());
  };
}

Work make_gemm() {
  std::vector<PackedMatrix> packed;
  for (const auto& [n, k] : kLayerShapes)
    packed.push_back(PackedMatrix::pack(ramp(n * k).data(), n, k).take());
  return run_gemms(std::move(packed));
}

Work make_gemm_int8() {
  std::vector<PackedMatrix> packed;
  for (const auto& [n, k] : kLayerShapes) {
    std::vector<float> weights;
    for (const bf16 v : ramp(n * k)) weights.push_back(to_float(v));
    packed.push_back(PackedMatrix::pack_int8(weights.data(), n, k).take());
  }
  return run_gemms(std::move(packed));
}

Work make_attention_prompt(int64_t context) {
  auto cache = std::make_shared<BenchCache>(1, 1, context + 512);
  auto q = std::make_shared<std::vector<bf16>>(ramp(512 * BenchCache::kHeads * BenchCache::kDim));
  auto out = std::make_shared<std::vector<bf16>>(q->size());
  return
      [=] { attention_prompt(cache->view(0, 0), BenchCache::kShape, q->data(), context, 512, out->data()); };
}

int step_layers(DType t, const std::vector<BenchShape>& shapes) {
  return static_cast<int>(kStepBytes / file_bytes(t, shapes)) + 1;
}

Work make_step(DType t, const std::vector<BenchShape>& shapes, int rows) {
  auto matrices = std::make_shared<std::vector<StepMatrix>>(step_matrices(t, shapes, step_layers(t, shapes)));
  auto in = std::make_shared<std::vector<float>>(16 * 1536, 0.5f);
  auto out = std::make_shared<std::vector<float>>(16 * 49152);
  return [=] {
    for (const StepMatrix& w : *matrices) step_linear(w, in->data(), rows, out->data());
  };
}

Work make_attention_step(int64_t context, int rows) {
  auto cache = std::make_shared<BenchCache>(30, rows, context);
  auto q = std::make_shared<std::vector<float>>(rows * BenchCache::kHeads * BenchCache::kDim, 0.1f);
  auto out = std::make_shared<std::vector<float>>(q->size());
  return [=] {
    std::vector<StepAttentionRow> call(static_cast<size_t>(rows));
    for (int64_t layer = 0; layer < cache->layers(); ++layer) {
      for (int r = 0; r < rows; ++r) call[static_cast<size_t>(r)] = {cache->view(layer, r), context - 1};
      attention_step(call.data(), rows, BenchCache::kShape, q->data(), out->data());
    }
  };
}

// Norm, RoPE, cache rows and gated activation of a chunk, as a layer has them.
Work make_elementwise() {
  constexpr int64_t kRows = 512, kWidth = 576, kFeed = 1536;
  auto x = std::make_shared<std::vector<float>>(kRows * 2 * kFeed, 0.5f);
  auto y = std::make_shared<std::vector<bf16>>(kRows * kFeed);
  auto turn = std::make_shared<std::vector<float>>(kRows * 32, 0.6f);
  auto level = std::make_shared<std::vector<float>>(kRows * 32, 0.8f);
  auto cache = std::make_shared<BenchCache>(1, 1, kRows);
  return [=] {
    rms_norm(x->data(), turn->data(), 1e-5f, kRows, kWidth, y->data());
    rope(x->data(), kRows, {9, 64, 64, RopePairs::kHalfSplit}, level->data(), turn->data());
    kv_append(cache->view(0, 0), 0, kRows, x->data(), x->data());
    silu_mul(x->data(), kRows, kFeed, y->data());
  };
}

void add_prompt_kernels(std::vector<Kernel>* out) {
  double products = 0, weights = 0, rows = 0;
  for (const auto& [n, k] : kLayerShapes) {
    products += 2.0 * 512 * static_cast<double>(n * k);
    weights += static_cast<double>(n * k);
    rows += 512.0 * static_cast<double>(2 * k + 4 * n);
  }
  out->push_back({"gemm_bf16", gemm_multipliers(), products, 2 * weights + rows, make_gemm});
  out->push_back({"gemm_int8", Multipliers::kInt8, products, weights + rows, make_gemm_int8});
  for (const int64_t context : {0, 1024, 4096, 7168}) {
    const double pairs = 512.0 * (static_cast<double>(context) + 256.5);
    const double cache =
        2.0 * 2 * BenchCache::kKvHeads * BenchCache::kDim * static_cast<double>(context + 512);
    const double q = 2.0 * 2 * 512 * BenchCache::kHeads * BenchCache::kDim;
    out->push_back({"attention_prompt_" + std::to_string(context), attention_multipliers(),
                    4.0 * BenchCache::kDim * BenchCache::kHeads * pairs, cache + q,
                    [=] { return make_attention_prompt(context); }});
  }
  const double norm = 576 * (4 + 2), turn = 576 * (4 + 4), append = 2 * 192 * (4 + 2), gate = 1536 * (8 + 2);
  // Its operations are few beside its bytes, and not counted one by one.
  out->push_back({"elementwise", Multipliers::kF32, 512.0 * 576 * 8, 512 * (norm + turn + append + gate),
                  make_elementwise});
}

void add_step(const std::string& name, DType t, const std::vector<BenchShape>& shapes,
              std::vector<Kernel>* out) {
  const bool plain = dtype_info(t).block_elements == 1;
  const double layers = step_layers(t, shapes);
  for (const int rows : {1, 4, 16}) {
    double operations = 0, bytes = static_cast<double>(file_bytes(t, shapes));
    for (const auto& [n, k] : shapes) {
      operations += 2.0 * rows * static_cast<double>(n * k);
      bytes += 4.0 * rows * static_cast<double>(n + k);
    }
    out->push_back({name + "_" + std::string(dtype_info(t).name) + "_" + std::to_string(rows),
                    plain ? Multipliers::kF32 : Multipliers::kInt8, layers * operations, layers * bytes,
                    [=] { return make_step(t, shapes, rows); }});
  }
}

void add_step_attention(int64_t context, int rows, std::vector<Kernel>* out) {
  const double pairs = 30.0 * rows * static_cast<double>(context);
  out->push_back({"attention_step_" + std::to_string(context) + "_" + std::to_string(rows), Multipliers::kF32,
                  4.0 * BenchCache::kDim * BenchCache::kHeads * pairs,
                  4.0 * BenchCache::kDim * BenchCache::kKvHeads * pairs,
                  [=] { return make_attention_step(context, rows); }});
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> out;
  add_prompt_kernels(&out);
  for (const DType t : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_0, DType::kQ5_1, DType::kMxfp4,
                        DType::kBF16, DType::kF16, DType::kF32})
    add_step("step_linear", t, kLayerShapes, &out);
  for (const DType t : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K})
    add_step("step_linear", t, kSuperShapes, &out);
  add_step("step_head", DType::kQ8_0, kHeadShape, &out);
  add_step_attention(7680, 1, &out);
  add_step_attention(512, 16, &out);
  return out;
}

void rate(benchmark::State& state, const Kernel& kernel) {
  use_all_cores();
  const Work work = kernel.make();
  work();
  for (auto _ : state) work();
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(kernel.operations, Counter::kIsIterationInvariantRate);
  state.counters["byte/s"] = Counter(kernel.bytes, Counter::kIsIterationInvariantRate);
  state.counters["FLOP/byte"] = kernel.operations / kernel.bytes;
  state.SetLabel(peak_name(kernel.multipliers));
}

[[maybe_unused]] const bool registered = [] {
  for (const Kernel& kernel : all_kernels()) {
    benchmark::RegisterBenchmark(("kernel/" + kernel.name).c_str(),
                                 [=](benchmark::State& s) { rate(s, kernel); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("regression/" + kernel.name).c_str(),
                                 [=](benchmark::State& s) { measure(s, kernel); })
        ->Iterations(kSamples)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace isthmus::kernels
#endif  // ISTHMUS_COMPUTE_SERIAL
