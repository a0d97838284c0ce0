// SPDX-License-Identifier: Apache-2.0
// Inputs that the microbenchmarks of this folder share: SmolLM2-135M's shapes, with values that are finite in
// every type. Benchmarks only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/float16.h"
#include "base/huge_pages.h"
#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/parallel.h"
#include "kernels/rung.h"
#include "kernels/step_linear.h"

namespace isthmus::kernels {

// What a decode step reads again and again: about the weights of SmolLM2. More than the cores keep to
// themselves; where it comes from is then the machine's affair, the same for a kernel and for the read that
// it is compared with.
inline constexpr size_t kStepBytes = size_t{96} << 20;

struct BenchShape {
  int64_t n, k;
};
// Fused QKV, output, fused gate/up, down; the head.
inline const std::vector<BenchShape> kLayerShapes = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
inline const std::vector<BenchShape> kHeadShape = {{49152, 576}};
// The layer's for types whose rows are whole blocks of 256.
inline const std::vector<BenchShape> kSuperShapes = {{1024, 768}, {768, 768}, {3072, 768}, {768, 1536}};

inline void set_threads([[maybe_unused]] int64_t count) {
#ifndef ISTHMUS_COMPUTE_SERIAL
  omp_set_num_threads(static_cast<int>(count));
#endif
}

inline void use_all_cores() {
#ifndef ISTHMUS_COMPUTE_SERIAL
  omp_set_num_threads(omp_get_num_procs());
#endif
}

inline std::vector<bf16> ramp(int64_t count) {
  std::vector<bf16> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = to_bf16(static_cast<float>(i * 40503u % 1024u) * 0x1p-9f - 1.0f);
  return out;
}

// Bytes of all shapes' blocks in a file.
inline size_t file_bytes(DType t, const std::vector<BenchShape>& shapes) {
  size_t total = 0;
  for (const BenchShape& s : shapes) total += static_cast<size_t>(s.n) * row_bytes(t, s.k);
  return total;
}

// As a weight file has them: without denormals, on which some CPUs take a hundred times as long.
inline std::vector<std::byte> random_blocks(DType t, int64_t n, int64_t k, std::mt19937& rng) {
  constexpr size_t kMxfp4Block = 17;  // its first byte is the exponent of its scale
  std::vector<std::byte> blocks(static_cast<size_t>(n) * row_bytes(t, k));
  for (size_t i = 0; i + 4 <= blocks.size(); i += 4) {
    uint32_t v = (rng() & 0xbbbbbbbbu) | 0x10001000u;  // every f16 is finite, and none is a denormal
    if (t == DType::kF32 || t == DType::kBF16) v = (v & 0x803f803fu) | 0x3f003f00u;
    std::memcpy(blocks.data() + i, &v, 4);
  }
  for (size_t i = 0; t == DType::kMxfp4 && i < blocks.size(); i += kMxfp4Block) blocks[i] = std::byte{125};
  return blocks;
}

inline std::vector<StepMatrix> step_matrices(DType t, const std::vector<BenchShape>& shapes, int layers) {
  std::mt19937 rng(1);
  std::vector<StepMatrix> out;
  for (int layer = 0; layer < layers; ++layer) {
    for (const BenchShape& s : shapes) {
      out.push_back(StepMatrix::pack(t, random_blocks(t, s.n, s.k, rng).data(), s.n, s.k).take());
    }
  }
  return out;
}

// What a core can do with operands in registers: a loop of one of the three multiply-and-adds, on all cores.
// Operations done, a multiply and an add counted as two.
enum class Multipliers : uint8_t { kF32, kBf16, kInt8 };
double run_multipliers(Multipliers kind);
// Those of a prompt's bf16 values, in attention and in matrix products.
inline Multipliers attention_multipliers() {
  return multiplies_bf16(active_rung()) ? Multipliers::kBf16 : Multipliers::kF32;
}
inline Multipliers gemm_multipliers() {
  return active_rung() == Rung::kAvx512Bf16 ? Multipliers::kBf16 : Multipliers::kF32;
}
// Of the benchmark that times them.
inline const char* peak_name(Multipliers kind) {
  return kind == Multipliers::kF32 ? "peak_f32" : kind == Multipliers::kBf16 ? "peak_bf16" : "peak_int8";
}

// Memory as weights lie in, and a read of all of it by all threads.
class ReadBuffer {
 public:
  ReadBuffer() {
    ISTHMUS_CHECK(buffer_.try_resize(kStepBytes));
    std::memset(buffer_.data(), 1, kStepBytes);
  }
  uint64_t read() const {
    std::vector<uint64_t> sums(static_cast<size_t>(thread_count()) * 8);
    parallel_rows(thread_count(), 1, 0, [&](int64_t begin, int64_t end) {
      const size_t per = kStepBytes / 8 / static_cast<size_t>(thread_count());
      const auto* p = reinterpret_cast<const uint64_t*>(buffer_.data()) + static_cast<size_t>(begin) * per;
      uint64_t sum = 0;
      for (size_t i = 0; i < static_cast<size_t>(end - begin) * per; i += 8) sum += p[i];  // one of each line
      sums[static_cast<size_t>(begin) * 8] = sum;
    });
    uint64_t total = 0;
    for (const uint64_t s : sums) total += s;
    return total;
  }

 private:
  HugeBuffer buffer_;
};

// Caches of `rows` sequences of `context` tokens in `layers` layers: 3 KV heads of 64, bf16.
class BenchCache {
 public:
  static constexpr int kHeads = 9, kKvHeads = 3, kDim = 64;
  static constexpr AttentionShape kShape{kHeads, 0.125f, 0};

  BenchCache(int64_t layers, int64_t rows, int64_t context)
      : layers_(layers), rows_(rows), pages_((context + kPageTokens - 1) / kPageTokens) {
    const std::vector<bf16> values =
        ramp(layers * rows * pages_ * static_cast<int64_t>(kPageBytes / sizeof(bf16)));
    ISTHMUS_CHECK(storage_.try_resize(values.size() * sizeof(bf16)));
    std::memcpy(storage_.data(), values.data(), storage_.size());
    for (int64_t p = 0; p < pages_; ++p) table_.push_back(static_cast<int32_t>(p));
  }
  int64_t layers() const { return layers_; }
  KvLayerView view(int64_t layer, int64_t row) {
    std::byte* base = storage_.data() + static_cast<size_t>((layer * rows_ + row) * pages_) * kPageBytes;
    return {base, kPageBytes, table_.data(), kKvHeads, kDim, DType::kBF16};
  }

 private:
  static constexpr size_t kPageBytes = 2 * sizeof(bf16) * kKvHeads * kPageTokens * kDim;
  int64_t layers_, rows_, pages_;
  HugeBuffer storage_;  // as the engine's
  std::vector<int32_t> table_;
};

}  // namespace isthmus::kernels
