// SPDX-License-Identifier: Apache-2.0
// Model: the one forward pass of both engine roles. Two arithmetics, chosen by what a token is (never by role
// or batch size): prompt() for tokens 0..T-2, step() for token T-1 and every generated or verified token. A
// row's bits depend on its own sequence only: not on chunk plan, resume point, neighbours or thread count.
// One thread (the engine's) calls prompt and step; config() and checkpoint() are safe from any. Not a
// scheduler, not a sampler.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stop_token>

#include "base/status.h"
#include "base/token.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/decoder_block.h"
#include "model/kv_pool.h"
#include "model/layer_tap.h"
#include "model/rope_table.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace isthmus {

// Prompt rows of one run of the layers, where nobody asks for another number.
inline constexpr int64_t kChunkTokens = 512;

struct ModelOptions {
  Arithmetic arithmetic = Arithmetic::kProduction;
  int64_t chunk_tokens = kChunkTokens;  // workspace made at load; larger chunks make it grow
  int64_t max_positions = 0;            // 0: what the model file says; else the smaller of both
  PromptWeights prompt_weights = PromptWeights::kBf16;  // production only
  PackedFileName packed = {};  // where packed prompt weights are kept; production only
};

struct StepToken {
  TokenId token = 0;
  Sequence* sequence = nullptr;
};

class Model {
 public:
  // `path`: a GGUF file or a Hugging Face directory. Errors: those of the readers, kUnsupported,
  // kResourceExhausted.
  static Result<std::unique_ptr<Model>> load(const std::filesystem::path& path, const ModelOptions& options);
  static Result<std::unique_ptr<Model>> load(Checkpoint checkpoint, const ModelOptions& options);

  const ModelConfig& config() const { return checkpoint_.config(); }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  Arithmetic arithmetic() const { return options_.arithmetic; }
  int64_t max_positions() const { return rope_.positions(); }
  size_t weight_bytes() const { return weights_.bytes(); }
  KvShape kv_shape() const;  // of the pools whose sequences this model takes

  // Appends the K/V rows of `ids` to `seq` in prompt arithmetic. No logits: the last prompt token is a step
  // token. Chunking is the caller's. Stops between layers: kCancelled. Other errors: kInvalidArgument (id,
  // position), kResourceExhausted. After an error the sequence has its old length.
  Status prompt(std::span<const TokenId> ids, Sequence& seq, LayerTap* tap, const std::stop_token& stop);

  // prompt() with logits for every token, [n, V] f32: for evaluation, as serving asks none of a prompt token.
  // Rows as prompt()'s; the head is step arithmetic's.
  Status prompt_logits(std::span<const TokenId> ids, Sequence& seq, float* logits);

  // Appends 1..kMaxStepRows rows in step arithmetic. Rows of one sequence are consecutive positions, in
  // order. logits: [rows, V] f32. Errors: kInvalidArgument, kResourceExhausted; then no sequence has changed
  // its length.
  Status step(std::span<const StepToken> rows, float* logits);

 private:
  Model(Checkpoint checkpoint, ModelOptions options)
      : checkpoint_(std::move(checkpoint)), options_(options) {}

  Status check(TokenId id, int64_t position) const;
  void embed(TokenId id, float* x) const;
  template <typename T>
  Status run_prompt(std::span<const TokenId> ids, Sequence& seq, const PromptChunk& chunk, bool all_layers,
                    const std::stop_token& stop);
  void head(int64_t n, float* logits);
  Status place_rows(std::span<const StepToken> rows);
  Status step_reference(std::span<const StepToken> rows, float* logits);
  void step_production(std::span<const StepToken> rows, float* logits);

  Checkpoint checkpoint_;
  ModelOptions options_;
  ModelWeights weights_;
  RopeTable rope_;
  Workspace workspace_;
  std::vector<kernels::StepAttentionRow> step_rows_;  // of the current step
};

}  // namespace isthmus
