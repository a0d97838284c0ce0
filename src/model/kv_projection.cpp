// SPDX-License-Identifier: Apache-2.0
#include "model/kv_projection.h"

#include <utility>

#include "kernels/elementwise.h"

namespace isthmus {
namespace {

template <typename T>
T* grown(AlignedBuffer<T>& buffer, size_t count) {
  if (buffer.size() < count) buffer = AlignedBuffer<T>(count);
  return buffer.data();
}

}  // namespace

KvProjection::KvProjection(const ModelConfig& config, KvProjectionWeights weights)
    : w_(std::move(weights)),
      width_(config.width),
      kv_heads_(config.kv_heads),
      head_dim_(config.head_dim),
      rotary_dim_(config.rope.rotary_dim),
      norm_eps_(config.norm_eps) {
  ISTHMUS_CHECK(w_.k.n() == config.kv_width() && w_.v.n() == config.kv_width());
  ISTHMUS_CHECK(w_.k.k() == width_ && w_.v.k() == width_ && w_.k.dtype() == w_.v.dtype());
  ISTHMUS_CHECK(w_.input_norm.size() == static_cast<size_t>(width_));
}

size_t KvProjection::bytes() const {
  return w_.k.bytes() + w_.v.bytes() + w_.input_norm.size() * sizeof(float);
}

template <typename T>
void KvProjection::norm(const float* x, int64_t n, T* normed) const {
  kernels::rms_norm(x, w_.input_norm.data(), norm_eps_, n, width_, normed);
}

template <typename T>
void KvProjection::project_normed(const T* normed, int64_t first, int64_t n, const RopeTable& rope, float* k,
                                  float* v) const {
  kernels::gemm(w_.k, normed, n, k);
  kernels::gemm(w_.v, normed, n, v);
  finish(n, rope.cos(first), rope.sin(first), k, v);
}

void KvProjection::finish(int64_t n, const float* cos, const float* sin, float* k, float* v) const {
  const int64_t row = int64_t{kv_heads_} * head_dim_;
  if (!w_.k_bias.empty()) kernels::add_bias(k, w_.k_bias.data(), n, row);
  if (!w_.v_bias.empty()) kernels::add_bias(v, w_.v_bias.data(), n, row);
  if (!w_.k_norm.empty()) kernels::rms_norm(k, w_.k_norm.data(), norm_eps_, n * kv_heads_, head_dim_, k);
  kernels::rope(k, n, {kv_heads_, head_dim_, rotary_dim_, kernels::RopePairs::kHalfSplit}, cos, sin);
}

void KvProjection::project(const float* x, int64_t first, int64_t n, const RopeTable& rope, Scratch& scratch,
                           KvRows out) const {
  const size_t count = static_cast<size_t>(n) * static_cast<size_t>(width_);
  if (dtype() == DType::kBF16) {
    bf16* normed = grown(scratch.normed_bf16, count);
    norm(x, n, normed);
    project_normed(normed, first, n, rope, out.k, out.v);
  } else {
    float* normed = grown(scratch.normed_f32, count);
    norm(x, n, normed);
    project_normed(normed, first, n, rope, out.k, out.v);
  }
}

template void KvProjection::norm(const float*, int64_t, bf16*) const;
template void KvProjection::norm(const float*, int64_t, float*) const;
template void KvProjection::project_normed(const bf16*, int64_t, int64_t, const RopeTable&, float*,
                                           float*) const;
template void KvProjection::project_normed(const float*, int64_t, int64_t, const RopeTable&, float*,
                                           float*) const;

}  // namespace isthmus
