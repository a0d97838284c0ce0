// SPDX-License-Identifier: Apache-2.0
#include "model/decoder_block.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"

namespace isthmus {
namespace {

template <typename T>
Activations<T>& activations(Workspace& ws) {
  if constexpr (std::is_same_v<T, bf16>) {
    return ws.half;
  } else {
    return ws.full;
  }
}

kernels::AttentionShape attention_shape(const ModelConfig& c) {
  return {.heads = c.heads, .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)))};
}

// Bias, q norm and RoPE in place. q: [n, H, D]
void finish_queries(const ModelConfig& c, const BlockWeights& w, int64_t n, const float* cos,
                    const float* sin, float* q) {
  if (!w.q_bias.empty()) kernels::add_bias(q, w.q_bias.data(), n, c.q_width());
  if (!w.q_norm.empty()) kernels::rms_norm(q, w.q_norm.data(), c.norm_eps, n * c.heads, c.head_dim, q);
  kernels::rope(q, n, {c.heads, c.head_dim, c.rope.rotary_dim, kernels::RopePairs::kHalfSplit}, cos, sin);
}

template <typename T>
void prompt_attention(const ModelConfig& c, const BlockWeights& w, const PromptChunk& chunk,
                      const kernels::KvLayerView& kv, Workspace& ws) {
  Activations<T>& a = activations<T>(ws);
  const int64_t n = chunk.n;
  kernels::gemm(w.q, a.normed.data(), n, ws.q.data());
  finish_queries(c, w, n, chunk.rope->cos(chunk.first), chunk.rope->sin(chunk.first), ws.q.data());
  const T* q = nullptr;
  if constexpr (std::is_same_v<T, bf16>) {
    kernels::round_to_bf16(ws.q.data(), n * c.q_width(), a.q.data());
    q = a.q.data();
  } else {
    q = ws.q.data();
  }
  kernels::attention_prompt(kv, attention_shape(c), q, chunk.first, n, a.attention.data());
  kernels::gemm(w.o, a.attention.data(), n, ws.x.data(), /*accumulate=*/true);
  if (!w.o_bias.empty()) kernels::add_bias(ws.x.data(), w.o_bias.data(), n, c.width);
}

template <typename T>
void prompt_mlp(const ModelConfig& c, const BlockWeights& w, int64_t n, Workspace& ws) {
  Activations<T>& a = activations<T>(ws);
  kernels::rms_norm(ws.x.data(), w.post_norm.data(), c.norm_eps, n, c.width, a.normed.data());
  kernels::gemm(w.gate_up, a.normed.data(), n, ws.gate_up.data());
  kernels::silu_mul(ws.gate_up.data(), n, c.ffn, a.gated.data());
  kernels::gemm(w.down, a.gated.data(), n, ws.x.data(), /*accumulate=*/true);
}

// From the fused product [rows, (H + 2 Hk) D] to q, k and v with rows of their own.
void split_qkv(const ModelConfig& c, int64_t rows, Workspace& ws) {
  const int64_t q = c.q_width(), kv = c.kv_width();
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = ws.qkv.data() + r * (q + 2 * kv);
    std::copy_n(from, q, ws.q.data() + r * q);
    std::copy_n(from + q, kv, ws.k.data() + r * kv);
    std::copy_n(from + q + kv, kv, ws.v.data() + r * kv);
  }
}

void step_attention(const ModelConfig& c, const BlockWeights& w,
                    std::span<const kernels::StepAttentionRow> rows, Workspace& ws) {
  Activations<float>& a = ws.full;
  const int n = static_cast<int>(rows.size());
  w.kv.norm(ws.x.data(), n, a.normed.data());
  w.qkv_step.apply(a.normed.data(), n, ws.qkv.data(), false, ws.stacked.data());
  split_qkv(c, n, ws);
  w.kv.finish(n, ws.cos.data(), ws.sin.data(), ws.k.data(), ws.v.data());
  finish_queries(c, w, n, ws.cos.data(), ws.sin.data(), ws.q.data());
  for (int r = 0; r < n; ++r) {
    const kernels::StepAttentionRow& row = rows[static_cast<size_t>(r)];
    kernels::kv_append(row.kv, row.position, 1, ws.k.data() + r * c.kv_width(),
                       ws.v.data() + r * c.kv_width());
  }
  kernels::attention_step(rows.data(), n, attention_shape(c), ws.q.data(), a.attention.data());
  w.o_step.apply(a.attention.data(), n, ws.x.data(), /*accumulate=*/true, ws.stacked.data());
  if (!w.o_bias.empty()) kernels::add_bias(ws.x.data(), w.o_bias.data(), n, c.width);
}

}  // namespace

template <typename T>
void prompt_block(const ModelConfig& c, const BlockWeights& w, const PromptChunk& chunk,
                  const PromptLayer& layer, Workspace& ws) {
  if (chunk.tap != nullptr) chunk.tap->on_layer_input(layer.index, chunk.first, chunk.n, ws.x.data());
  T* normed = activations<T>(ws).normed.data();
  w.kv.norm(ws.x.data(), chunk.n, normed);
  w.kv.project_normed(normed, chunk.first, chunk.n, *chunk.rope, ws.k.data(), ws.v.data());
  if (chunk.tap != nullptr) chunk.tap->on_kv(layer.index, chunk.first, chunk.n, ws.k.data(), ws.v.data());
  kernels::kv_append(layer.kv, chunk.first, chunk.n, ws.k.data(), ws.v.data());
  if (layer.cache_only) return;
  prompt_attention<T>(c, w, chunk, layer.kv, ws);
  prompt_mlp<T>(c, w, chunk.n, ws);
}

template void prompt_block<bf16>(const ModelConfig&, const BlockWeights&, const PromptChunk&,
                                 const PromptLayer&, Workspace&);
template void prompt_block<float>(const ModelConfig&, const BlockWeights&, const PromptChunk&,
                                  const PromptLayer&, Workspace&);

void step_block(const ModelConfig& c, const BlockWeights& w, std::span<const kernels::StepAttentionRow> rows,
                Workspace& ws) {
  Activations<float>& a = ws.full;
  const int n = static_cast<int>(rows.size());
  step_attention(c, w, rows, ws);
  kernels::rms_norm(ws.x.data(), w.post_norm.data(), c.norm_eps, n, c.width, a.normed.data());
  w.gate_up_step.apply(a.normed.data(), n, ws.gate_up.data(), false, ws.stacked.data());
  kernels::silu_mul(ws.gate_up.data(), n, c.ffn, a.gated.data());
  w.down_step.apply(a.gated.data(), n, ws.x.data(), /*accumulate=*/true, ws.stacked.data());
}

}  // namespace isthmus
