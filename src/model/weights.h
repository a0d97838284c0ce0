// SPDX-License-Identifier: Apache-2.0
// A decoder's weights in the forms its two arithmetics multiply with, built once from a Checkpoint; immutable
// afterwards. Production: prompt = PackedMatrix (the file's values as PromptWeights says), step = StepMatrix
// (the file's own blocks); the former may be mapped from a packed file instead. Reference: f32 PackedMatrix
// for both. Single thread while loading (threads of its own inside). Not the arithmetic: see decoder_block.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "kernels/gemm.h"
#include "kernels/step_linear.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/kv_projection.h"
#include "model/packed_file.h"
#include "model/prompt_weights.h"

namespace isthmus {

enum class Arithmetic : uint8_t { kProduction, kReferenceF32 };

// Matrices stacked along N that share their input. One StepMatrix when the file gives all of them one type.
class StepLinear {
 public:
  static Result<StepLinear> pack(std::vector<RawMatrix> stacked);

  int64_t n() const { return n_; }
  size_t bytes() const;

  // out[rows, N] (+)= in[rows, K] · Wᵀ. scratch: [rows, N] f32, used when there are several parts.
  void apply(const float* in, int rows, float* out, bool accumulate, float* scratch) const;

 private:
  std::vector<kernels::StepMatrix> parts_;
  int64_t n_ = 0;
};

struct BlockWeights {
  KvProjection kv;  // input norm, K, V
  kernels::PackedMatrix q, o, gate_up, down;
  std::vector<float> q_bias, q_norm, o_bias, post_norm;  // empty: the family has none
  StepLinear qkv_step, o_step, gate_up_step, down_step;  // production; empty in reference
};

struct ModelWeights {
  std::optional<PackedFile> packed;  // what matrices of `blocks` borrow from
  DType embedding_type = DType::kF32;
  AlignedBuffer<std::byte> embedding;  // [V, row_bytes(type, E)], as in the file
  std::vector<BlockWeights> blocks;
  std::vector<float> output_norm;                       // [E]
  StepLinear head_step;                                 // production
  std::optional<kernels::PackedMatrix> head_reference;  // reference

  size_t bytes() const;  // resident, about
};

struct WeightOptions {
  Arithmetic arithmetic = Arithmetic::kProduction;
  PromptWeights prompt = PromptWeights::kBf16;  // production
  // Production: prompt matrices come from this file where it has them; what it lacks is packed, and the file
  // written anew (that it cannot be is logged, not an error).
  PackedFileName packed = {};
};

// Errors: those of the checkpoint, kUnsupported for a type that a kernel lacks.
Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const WeightOptions& options);

}  // namespace isthmus
