// SPDX-License-Identifier: Apache-2.0
// KvProjection: one layer's input norm, K/V weights, biases, k norm and RoPE: layer input in, finished K and
// V rows out. The forward pass and the capture on another box call this same code, so their rows are equal
// bit for bit. Immutable after creation; one calling thread at a time (the GEMM's rule), scratch is the
// caller's. Prompt arithmetic only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/float16.h"
#include "kernels/gemm.h"
#include "model/config.h"
#include "model/rope_table.h"

namespace isthmus {

struct KvProjectionWeights {
  std::vector<float> input_norm;      // [E]
  kernels::PackedMatrix k, v;         // [Hk * D, E]; bf16, or f32 in reference arithmetic
  std::vector<float> k_bias, v_bias;  // [Hk * D] or empty
  std::vector<float> k_norm;          // [D] or empty
};

// Where a projection writes: [n, Hk, D] f32 each, k after RoPE.
struct KvRows {
  float* k;
  float* v;
};

class KvProjection {
 public:
  // Normed layer inputs of one call, grown on demand. One per calling thread.
  struct Scratch {
    AlignedBuffer<bf16> normed_bf16;
    AlignedBuffer<float> normed_f32;
  };

  KvProjection() = default;
  KvProjection(const ModelConfig& config, KvProjectionWeights weights);

  int width() const { return width_; }        // E
  int kv_heads() const { return kv_heads_; }  // Hk
  int head_dim() const { return head_dim_; }  // D
  DType dtype() const { return w_.k.dtype(); }
  size_t bytes() const;

  // x: [n, E] f32, the residual stream before this layer's norm, at positions [first, first + n), all <
  // rope.positions().
  void project(const float* x, int64_t first, int64_t n, const RopeTable& rope, Scratch& scratch,
               KvRows out) const;

  // The two halves of project(), for callers that need the normed rows themselves (Q shares them).
  template <typename T>  // bf16 or float: dtype()
  void norm(const float* x, int64_t n, T* normed) const;
  template <typename T>
  void project_normed(const T* normed, int64_t first, int64_t n, const RopeTable& rope, float* k,
                      float* v) const;

  // Bias, k norm and RoPE in place, on products computed elsewhere (step rows). cos, sin: [n, rotary_dim /
  // 2].
  void finish(int64_t n, const float* cos, const float* sin, float* k, float* v) const;
  const std::vector<float>& input_norm() const { return w_.input_norm; }
  const kernels::PackedMatrix& k_weights() const { return w_.k; }
  const kernels::PackedMatrix& v_weights() const { return w_.v; }
  float norm_eps() const { return norm_eps_; }

 private:
  KvProjectionWeights w_;
  int width_ = 0, kv_heads_ = 0, head_dim_ = 0, rotary_dim_ = 0;
  float norm_eps_ = 0;
};

}  // namespace isthmus
