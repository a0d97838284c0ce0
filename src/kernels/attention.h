// SPDX-License-Identifier: Apache-2.0
// Causal attention over a paged KV cache, for prompt chunks and for decode steps. Called by the engine
// thread; OpenMP inside. Blocked: scores exist for one tile at a time, never T x T. Tiles start at multiples
// of 64 absolute positions and are visited in ascending order, so a query row's bits depend on its own
// sequence only (not on chunk plan, neighbours, thread count).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/float16.h"

namespace isthmus::kernels {

inline constexpr int kPageTokens = 64;

// One layer of one sequence's cache. Page p of the sequence (tokens [64p, 64p+64)) lies at base + table[p] *
// page_bytes and is K [Hk, 64, D] followed by V [Hk, 64, D], both `dtype` (kBF16, or kF32 in reference
// arithmetic). K is stored after RoPE. Slots past the sequence's end hold arbitrary bytes: kernels must not
// let them reach a result (0 x NaN). D is even, and base and page_bytes are multiples of 4: the kernels read
// bf16 in pairs.
struct KvLayerView {
  std::byte* base = nullptr;
  size_t page_bytes = 0;
  const int32_t* table = nullptr;
  int kv_heads = 0;
  int head_dim = 0;
  DType dtype = DType::kBF16;
};

struct AttentionShape {
  int heads = 0;    // H, a multiple of kv_heads
  float scale = 0;  // usually D^-1/2
  int window = 0;   // 0: all; else a query at p sees keys in (p - window, p]
};

// Writes rows [first, first + n) of K and V, rounding to the cache dtype once. k, v: [n, Hk, D] f32 (k after
// RoPE).
void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v);

// Prompt arithmetic. q: [n, H, D] after RoPE at positions [first, first + n), whose K/V rows are already
// appended. Scores = bf16 products summed in f32; softmax in f32 (online); sums with V in f32. On rungs that
// multiply bf16 (rung.h) weights are rounded to bf16 first.
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first,
                      int64_t n,
                      bf16* out);  // out: [n, H, D]
// Reference arithmetic: everything f32 (cache dtype kF32).
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first,
                      int64_t n, float* out);

// Step arithmetic: rows may belong to different sequences or to consecutive positions of one.
struct StepAttentionRow {
  KvLayerView kv;
  int64_t position = 0;  // sees keys [0, position]; its own K/V row is already appended
};
// q: [rows, H, D] f32 after RoPE; out: [rows, H, D] f32. Context is cut into splits of a constant length,
// whose partial results are combined in ascending order.
void attention_step(const StepAttentionRow* rows, int n_rows, const AttentionShape& shape, const float* q,
                    float* out);

}  // namespace isthmus::kernels
