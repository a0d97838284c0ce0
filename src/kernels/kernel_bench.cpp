// SPDX-License-Identifier: Apache-2.0
// Every production kernel, measured in two ways. kernel/NAME: its rates, and how many operations it does for
// a byte (the roofline picture). regression/NAME: its time as a multiple of a calibration loop that runs
// right before and right after it, median of nine (bench/kernel_regression.py); the calibrations use none of
// our kernels: a matrix product of oneDNN in f32 where arithmetic limits the kernel, a plain read where
// memory does.
#ifdef ISTHMUS_ONEDNN
#include <benchmark/benchmark.h>

#include <oneapi/dnnl/dnnl.h>
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

Work make_arithmetic() {
  constexpr int64_t kM = 512, kN = 1536, kK = 576;
  auto in = std::make_shared<std::vector<float>>(kM * kK, 0.5f);
  auto weights = std::make_shared<std::vector<float>>(kK * kN, 0.25f);
  auto out = std::make_shared<std::vector<float>>(kM * kN);
  return [in, weights, out] {
    dnnl_sgemm('N', 'N', kM, kN, kK, 1.0f, in->data(), kK, weights->data(), kN, 0.0f, out->data(), kN);
  };
}

Work make_read() {
  auto data = std::make_shared<ReadBuffer>();
  return [data] { benchmark::DoNotOptimize(data->read()); };
}

void measure(benchmark::State& state, const Make& make_calibration, const Make& make_kernel) {
  use_all_cores();
  const Work calibration = make_calibration(), kernel = make_kernel();
  calibration();
  kernel();
  const double once = std::min(seconds(kernel), seconds(kernel));
  const int repeats = std::max(1, static_cast<int>(kSampleSeconds / once));
  std::vector<double> ratios;
  for (auto _ : state) {
    const double before = seconds(calibration);
    double time = 0;
    for (int i = 0; i < repeats; ++i) time += seconds(kernel);
    const double after = seconds(calibration);
    ratios.push_back(time / repeats / ((before + after) / 2));
  }
  std::nth_element(ratios.begin(), ratios.begin() + kSamples / 2, ratios.end());
  state.SetLabel(std::string(rung_name(active_rung())));
  state.counters["ratio"] = ratios[kSamples / 2];
}

Work run_gemms(std::vector<PackedMatrix> packed) {
  auto matrices = std::make_shared<std::vector<PackedMatrix>>(std::move(packed));
  auto in = std::make_shared<std::vector<bf16>>(ramp(512 * 1536));
  auto out = std::make_shared<std::vector<float>>(512 * 3072);
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
  auto turn = std::make_shared<std::vector<float>>(kRows * 32, 0.7f);
  auto cache = std::make_shared<BenchCache>(1, 1, kRows);
  return [=] {
    rms_norm(x->data(), turn->data(), 1e-5f, kRows, kWidth, y->data());
    rope(x->data(), kRows, {9, 64, 64, RopePairs::kHalfSplit}, turn->data(), turn->data());
    kv_append(cache->view(0, 0), 0, kRows, x->data(), x->data());
    silu_mul(x->data(), kRows, kFeed, y->data());
  };
}

struct Kernel {
  std::string name;
  Make calibration;
  double operations;  // of one call, a multiply and an add counted as two; 0: not worth a rate
  double bytes;       // operands and results, each once
  Make make;
};

void add_prompt_kernels(std::vector<Kernel>* out) {
  double products = 0, weights = 0, rows = 0;
  for (const auto& [n, k] : kLayerShapes) {
    products += 2.0 * 512 * static_cast<double>(n * k);
    weights += static_cast<double>(n * k);
    rows += 512.0 * static_cast<double>(2 * k + 4 * n);
  }
  out->push_back({"gemm_bf16", make_arithmetic, products, 2 * weights + rows, make_gemm});
  out->push_back({"gemm_int8", make_arithmetic, products, weights + rows, make_gemm_int8});
  for (const int64_t context : {0, 1024, 4096, 7168}) {
    const double pairs = 512.0 * (static_cast<double>(context) + 256.5);
    const double cache =
        2.0 * 2 * BenchCache::kKvHeads * BenchCache::kDim * static_cast<double>(context + 512);
    const double q = 2.0 * 2 * 512 * BenchCache::kHeads * BenchCache::kDim;
    out->push_back({"attention_prompt_" + std::to_string(context), make_arithmetic,
                    4.0 * BenchCache::kDim * BenchCache::kHeads * pairs, cache + q,
                    [=] { return make_attention_prompt(context); }});
  }
  out->push_back({"elementwise", make_arithmetic, 0, 0, make_elementwise});
}

void add_step(DType t, const std::vector<BenchShape>& shapes, std::vector<Kernel>* out) {
  const double layers = step_layers(t, shapes);
  for (const int rows : {1, 4, 16}) {
    double operations = 0, bytes = static_cast<double>(file_bytes(t, shapes));
    for (const auto& [n, k] : shapes) {
      operations += 2.0 * rows * static_cast<double>(n * k);
      bytes += 4.0 * rows * static_cast<double>(n + k);
    }
    out->push_back({"step_linear_" + std::string(dtype_info(t).name) + "_" + std::to_string(rows),
                    rows == 1 ? make_read : make_arithmetic, layers * operations, layers * bytes,
                    [=] { return make_step(t, shapes, rows); }});
  }
}

void add_step_attention(int64_t context, int rows, std::vector<Kernel>* out) {
  const double pairs = 30.0 * rows * static_cast<double>(context);
  out->push_back({"attention_step_" + std::to_string(context) + "_" + std::to_string(rows), make_read,
                  4.0 * BenchCache::kDim * BenchCache::kHeads * pairs,
                  4.0 * BenchCache::kDim * BenchCache::kKvHeads * pairs,
                  [=] { return make_attention_step(context, rows); }});
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> out;
  add_prompt_kernels(&out);
  for (const DType t : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ5_0, DType::kQ5_1, DType::kMxfp4,
                        DType::kBF16, DType::kF16, DType::kF32})
    add_step(t, kLayerShapes, &out);
  for (const DType t : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) add_step(t, kSuperShapes, &out);
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
}

[[maybe_unused]] const bool registered = [] {
  for (const Kernel& kernel : all_kernels()) {
    if (kernel.operations > 0) {
      benchmark::RegisterBenchmark(("kernel/" + kernel.name).c_str(),
                                   [=](benchmark::State& s) { rate(s, kernel); })
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
    benchmark::RegisterBenchmark(("regression/" + kernel.name).c_str(),
                                 [=](benchmark::State& s) { measure(s, kernel.calibration, kernel.make); })
        ->Iterations(kSamples)
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
  return true;
}();

}  // namespace
}  // namespace isthmus::kernels
#endif  // ISTHMUS_ONEDNN
