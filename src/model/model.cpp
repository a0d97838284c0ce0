// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "kernels/block_format.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/threads.h"

namespace isthmus {

Result<std::unique_ptr<Model>> Model::load(const std::filesystem::path& path, const ModelOptions& options) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(path));
  return load(std::move(checkpoint), options);
}

Result<std::unique_ptr<Model>> Model::load(Checkpoint checkpoint, const ModelOptions& options) {
  std::unique_ptr<Model> model(new Model(std::move(checkpoint), options));
  const ModelConfig& c = model->config();
  int64_t positions = c.max_positions;
  if (options.max_positions > 0) positions = std::min(positions, options.max_positions);
  ASSIGN_OR_RETURN(model->rope_, RopeTable::create(c.rope, positions));
  ASSIGN_OR_RETURN(
      model->weights_,
      load_weights(model->checkpoint_, {options.arithmetic, options.prompt_weights, options.packed}));
  const bool production = options.arithmetic == Arithmetic::kProduction;
  TRY(model->workspace_.reserve(c, options.chunk_tokens, production));
  model->step_rows_.reserve(kernels::kMaxStepRows);
  kernels::end_team();  // an engine thread computes from here on
  return model;
}

KvShape Model::kv_shape() const {
  const DType dtype = options_.arithmetic == Arithmetic::kProduction ? DType::kBF16 : DType::kF32;
  return {.layers = config().layers,
          .kv_heads = config().kv_heads,
          .head_dim = config().head_dim,
          .dtype = dtype};
}

Status Model::check(TokenId id, int64_t position) const {
  if (id < 0 || id >= config().vocab) {
    return {Code::kInvalidArgument, "model: token id: expected 0 to " + std::to_string(config().vocab - 1) +
                                        ", got " + std::to_string(id)};
  }
  if (position >= max_positions()) {
    return {Code::kInvalidArgument, "model: context: expected at most " + std::to_string(max_positions()) +
                                        " tokens, got " + std::to_string(position + 1)};
  }
  return {};
}

void Model::embed(TokenId id, float* x) const {
  const size_t row = row_bytes(weights_.embedding_type, config().width);
  kernels::dequantize_row(weights_.embedding_type, weights_.embedding.data() + static_cast<size_t>(id) * row,
                          config().width, x);
}

Status Model::prompt(std::span<const TokenId> ids, Sequence& seq, LayerTap* tap,
                     const std::stop_token& stop) {
  const int64_t n = static_cast<int64_t>(ids.size());
  if (n == 0) return {};
  const PromptChunk chunk{.first = seq.length(), .n = n, .rope = &rope_, .tap = tap};
  TRY(options_.arithmetic == Arithmetic::kProduction ? run_prompt<bf16>(ids, seq, chunk, false, stop)
                                                     : run_prompt<float>(ids, seq, chunk, false, stop));
  seq.advance(n);
  return {};
}

// `all_layers`: the last layer's output is wanted too, in Workspace::x. The sequence is not advanced.
template <typename T>
Status Model::run_prompt(std::span<const TokenId> ids, Sequence& seq, const PromptChunk& chunk,
                         bool all_layers, const std::stop_token& stop) {
  for (size_t i = 0; i < ids.size(); ++i) TRY(check(ids[i], chunk.first + static_cast<int64_t>(i)));
  TRY(workspace_.reserve(config(), chunk.n, options_.arithmetic == Arithmetic::kProduction));
  TRY(seq.reserve(chunk.n));
  for (size_t i = 0; i < ids.size(); ++i)
    embed(ids[i], workspace_.x.data() + static_cast<int64_t>(i) * config().width);
  for (int layer = 0; layer < config().layers; ++layer) {
    if (stop.stop_requested())
      return {Code::kCancelled, "model: prompt stopped at layer " + std::to_string(layer)};
    const bool cache_only = !all_layers && layer + 1 == config().layers;
    prompt_block<T>(config(), weights_.blocks[static_cast<size_t>(layer)], chunk,
                    {.index = layer, .kv = seq.view(layer), .cache_only = cache_only}, workspace_);
  }
  return {};
}

Status Model::prompt_logits(std::span<const TokenId> ids, Sequence& seq, float* logits) {
  const int64_t n = static_cast<int64_t>(ids.size());
  if (n == 0) return {};
  const PromptChunk chunk{.first = seq.length(), .n = n, .rope = &rope_, .tap = nullptr};
  TRY(options_.arithmetic == Arithmetic::kProduction ? run_prompt<bf16>(ids, seq, chunk, true, {})
                                                     : run_prompt<float>(ids, seq, chunk, true, {}));
  seq.advance(n);
  head(n, logits);
  return {};
}

// Logits of the first `n` rows of Workspace::x.
void Model::head(int64_t n, float* logits) {
  const ModelConfig& c = config();
  const bool reference = options_.arithmetic == Arithmetic::kReferenceF32;
  const int64_t most = reference ? n : kernels::kMaxStepRows;
  float* normed = workspace_.full.normed.data();
  for (int64_t at = 0; at < n; at += most) {
    const int64_t rows = std::min(most, n - at);
    kernels::rms_norm(workspace_.x.data() + at * c.width, weights_.output_norm.data(), c.norm_eps, rows,
                      c.width, normed);
    float* out = logits + at * c.vocab;
    if (reference) {
      kernels::gemm(*weights_.head_reference, normed, rows, out);
    } else {
      weights_.head_step.apply(normed, static_cast<int>(rows), out, false, nullptr);
    }
  }
}

Status Model::step(std::span<const StepToken> rows, float* logits) {
  ISTHMUS_CHECK(!rows.empty() && rows.size() <= kernels::kMaxStepRows);
  TRY(place_rows(rows));
  if (options_.arithmetic == Arithmetic::kReferenceF32) {
    TRY(step_reference(rows, logits));
  } else {
    step_production(rows, logits);
  }
  return {};
}

// Gives each row its position and makes room for it.
Status Model::place_rows(std::span<const StepToken> rows) {
  step_rows_.clear();
  for (size_t r = 0; r < rows.size(); ++r) {
    const Sequence* seq = rows[r].sequence;
    const int64_t earlier = std::count_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(r),
                                          [seq](const StepToken& t) { return t.sequence == seq; });
    step_rows_.push_back({.kv = {}, .position = seq->length() + earlier});
    TRY(check(rows[r].token, step_rows_[r].position));
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    TRY(rows[r].sequence->reserve(step_rows_[r].position + 1 - rows[r].sequence->length()));
  }
  return {};
}

// Reference arithmetic knows no difference between prompt and step: neighbouring rows of one sequence are a
// chunk.
Status Model::step_reference(std::span<const StepToken> rows, float* logits) {
  const ModelConfig& c = config();
  size_t done = 0;
  while (done < rows.size()) {
    Sequence& seq = *rows[done].sequence;
    std::array<TokenId, kernels::kMaxStepRows> ids;
    size_t n = 0;
    for (; done + n < rows.size() && rows[done + n].sequence == &seq; ++n) ids[n] = rows[done + n].token;
    const int64_t count = static_cast<int64_t>(n);
    const PromptChunk chunk{.first = seq.length(), .n = count, .rope = &rope_, .tap = nullptr};
    TRY(run_prompt<float>({ids.data(), n}, seq, chunk, true, {}));
    seq.advance(count);
    head(count, logits + static_cast<int64_t>(done) * c.vocab);
    done += n;
  }
  return {};
}

void Model::step_production(std::span<const StepToken> rows, float* logits) {
  const ModelConfig& c = config();
  Workspace& ws = workspace_;
  const int n = static_cast<int>(rows.size());
  const int64_t half = rope_.half();
  for (int64_t r = 0; r < n; ++r) {
    const int64_t position = step_rows_[static_cast<size_t>(r)].position;
    embed(rows[static_cast<size_t>(r)].token, ws.x.data() + r * c.width);
    std::copy_n(rope_.cos(position), half, ws.cos.data() + r * half);
    std::copy_n(rope_.sin(position), half, ws.sin.data() + r * half);
  }
  for (int layer = 0; layer < c.layers; ++layer) {
    for (size_t r = 0; r < rows.size(); ++r) step_rows_[r].kv = rows[r].sequence->view(layer);
    step_block(c, weights_.blocks[static_cast<size_t>(layer)], step_rows_, ws);
  }
  head(n, logits);
  for (const StepToken& row : rows) row.sequence->advance(1);
}

}  // namespace isthmus
