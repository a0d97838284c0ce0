// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "base/log.h"
#include "kernels/fp8_blocks.h"
#include "model/parallel.h"

namespace isthmus {
namespace {

using kernels::PackedMatrix;
using kernels::StepMatrix;

Status no_memory(size_t bytes) {
  return {Code::kResourceExhausted, "model: no memory for weights of " + std::to_string(bytes) + " bytes"};
}

// Values of matrices stacked along N, as f32, or as the e4m3 values nearest to them. [sum of n, k]
Result<AlignedBuffer<float>> stacked_values(std::span<const RawMatrix> stacked, bool fp8) {
  size_t count = 0;
  for (const RawMatrix& m : stacked) count += static_cast<size_t>(m.n * m.k);
  AlignedBuffer<float> all;
  if (stacked.size() > 1 && !all.try_resize(count)) return no_memory(count * sizeof(float));
  float* to = all.data();
  for (const RawMatrix& m : stacked) {
    ASSIGN_OR_RETURN(AlignedBuffer<float> values, expand(m));
    if (fp8) kernels::round_to_fp8_blocks(values.data(), m.n, m.k);
    if (stacked.size() == 1) return values;
    std::memcpy(to, values.data(), values.size() * sizeof(float));
    to += values.size();
  }
  return all;
}

int64_t stacked_rows(std::span<const RawMatrix> stacked) {
  int64_t n = 0;
  for (const RawMatrix& m : stacked) n += m.n;
  return n;
}

Result<PackedMatrix> pack_reference(std::span<const RawMatrix> stacked) {
  ASSIGN_OR_RETURN(const AlignedBuffer<float> values, stacked_values(stacked, false));
  return PackedMatrix::pack(values.data(), stacked_rows(stacked), stacked[0].k);
}

Result<PackedMatrix> pack_prompt(std::span<const RawMatrix> stacked, PromptWeights form) {
  ASSIGN_OR_RETURN(const AlignedBuffer<float> values, stacked_values(stacked, form == PromptWeights::kFp8));
  const int64_t n = stacked_rows(stacked), k = stacked[0].k;
  if (form == PromptWeights::kInt8) return PackedMatrix::pack_int8(values.data(), n, k);
  AlignedBuffer<bf16> rounded;
  if (!rounded.try_resize(values.size())) return no_memory(values.size() * sizeof(bf16));
  parallel_for(n * k, 1 << 18, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) rounded.data()[i] = to_bf16(values.data()[i]);
  });
  return PackedMatrix::pack(rounded.data(), n, k);
}

// Prompt matrices: from the packed file, or packed now.
class PromptMatrices {
 public:
  PromptMatrices(const WeightOptions& options, const PackedFile* file) : options_(options), file_(file) {}

  Result<PackedMatrix> get(const std::string& name, std::span<const RawMatrix> stacked) {
    return get_as(options_.prompt, name, stacked);
  }
  // K and V: the decoder's own in every form (prompt_weights.h).
  Result<PackedMatrix> get_keys_values(const std::string& name, const RawMatrix& matrix) {
    return get_as(PromptWeights::kBf16, name, {&matrix, 1});
  }
  bool packed_any() const { return packed_any_; }

 private:
  Result<PackedMatrix> get_as(PromptWeights form, const std::string& name,
                              std::span<const RawMatrix> stacked) {
    if (options_.arithmetic == Arithmetic::kReferenceF32) return pack_reference(stacked);
    const DType stored = form == PromptWeights::kInt8 ? DType::kI8 : DType::kBF16;
    if (file_ != nullptr) {
      if (auto found = file_->find(name, stored, stacked_rows(stacked), stacked[0].k))
        return std::move(*found);
    }
    packed_any_ = true;
    return pack_prompt(stacked, form);
  }

  const WeightOptions& options_;
  const PackedFile* file_;
  bool packed_any_ = false;
};

std::string matrix_name(int layer, const char* matrix) {
  return std::to_string(layer) + "." + matrix;
}

std::vector<NamedMatrix> prompt_matrices(const ModelWeights& w) {
  std::vector<NamedMatrix> all;
  for (size_t i = 0; i < w.blocks.size(); ++i) {
    const BlockWeights& b = w.blocks[i];
    const int layer = static_cast<int>(i);
    all.push_back({matrix_name(layer, "k"), &b.kv.k_weights()});
    all.push_back({matrix_name(layer, "v"), &b.kv.v_weights()});
    all.push_back({matrix_name(layer, "q"), &b.q});
    all.push_back({matrix_name(layer, "o"), &b.o});
    all.push_back({matrix_name(layer, "gate_up"), &b.gate_up});
    all.push_back({matrix_name(layer, "down"), &b.down});
  }
  return all;
}

class BlockLoader {
 public:
  BlockLoader(const Checkpoint& checkpoint, Arithmetic arithmetic, int layer, PromptMatrices& prompt)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        arithmetic_(arithmetic),
        layer_(layer),
        prompt_(prompt) {}

  Result<BlockWeights> load() {
    BlockWeights w;
    TRY(load_attention(&w));
    TRY(load_mlp(&w));
    return w;
  }

 private:
  // One matrix, or several stacked; in both forms.
  Status load_linear(const char* name, std::vector<RawMatrix> stacked, PackedMatrix* prompt,
                     StepLinear* step) const {
    ASSIGN_OR_RETURN(*prompt, prompt_.get(matrix_name(layer_, name), stacked));
    return load_step(std::move(stacked), step);
  }

  Status load_step(std::vector<RawMatrix> stacked, StepLinear* step) const {
    if (arithmetic_ == Arithmetic::kReferenceF32) return {};
    ASSIGN_OR_RETURN(*step, StepLinear::pack(std::move(stacked)));
    return {};
  }

  Status load_vector(bool present, TensorRole role, int64_t n, std::vector<float>* out) const {
    if (!present) return {};
    ASSIGN_OR_RETURN(*out, checkpoint_.vector(role, layer_, n));
    return {};
  }

  Result<RawMatrix> raw(TensorRole role, int64_t n, int64_t k) const {
    return checkpoint_.matrix(role, layer_, n, k);
  }

  Status load_attention(BlockWeights* w) const {
    const int64_t q_width = config_.q_width(), kv_width = config_.kv_width(), width = config_.width;
    std::vector<RawMatrix> qkv;
    ASSIGN_OR_RETURN(RawMatrix q, raw(TensorRole::kQ, q_width, width));
    ASSIGN_OR_RETURN(RawMatrix k, raw(TensorRole::kK, kv_width, width));
    ASSIGN_OR_RETURN(RawMatrix v, raw(TensorRole::kV, kv_width, width));
    KvProjectionWeights kv;
    ASSIGN_OR_RETURN(kv.k, prompt_.get_keys_values(matrix_name(layer_, "k"), k));
    ASSIGN_OR_RETURN(kv.v, prompt_.get_keys_values(matrix_name(layer_, "v"), v));
    ASSIGN_OR_RETURN(w->q, prompt_.get(matrix_name(layer_, "q"), {&q, 1}));
    qkv.push_back(std::move(q));
    qkv.push_back(std::move(k));
    qkv.push_back(std::move(v));
    TRY(load_step(std::move(qkv), &w->qkv_step));

    TRY(load_vector(true, TensorRole::kInputNorm, width, &kv.input_norm));
    TRY(load_vector(config_.qkv_bias, TensorRole::kQBias, q_width, &w->q_bias));
    TRY(load_vector(config_.qkv_bias, TensorRole::kKBias, kv_width, &kv.k_bias));
    TRY(load_vector(config_.qkv_bias, TensorRole::kVBias, kv_width, &kv.v_bias));
    TRY(load_vector(config_.qk_norm, TensorRole::kQNorm, config_.head_dim, &w->q_norm));
    TRY(load_vector(config_.qk_norm, TensorRole::kKNorm, config_.head_dim, &kv.k_norm));
    w->kv = KvProjection(config_, std::move(kv));

    std::vector<RawMatrix> o(1);
    ASSIGN_OR_RETURN(o[0], raw(TensorRole::kO, width, q_width));
    TRY(load_vector(config_.output_bias, TensorRole::kOBias, width, &w->o_bias));
    return load_linear("o", std::move(o), &w->o, &w->o_step);
  }

  Status load_mlp(BlockWeights* w) const {
    const int64_t width = config_.width, ffn = config_.ffn;
    TRY(load_vector(true, TensorRole::kPostNorm, width, &w->post_norm));
    std::vector<RawMatrix> gate_up(2), down(1);
    ASSIGN_OR_RETURN(gate_up[0], raw(TensorRole::kGate, ffn, width));
    ASSIGN_OR_RETURN(gate_up[1], raw(TensorRole::kUp, ffn, width));
    TRY(load_linear("gate_up", std::move(gate_up), &w->gate_up, &w->gate_up_step));
    ASSIGN_OR_RETURN(down[0], raw(TensorRole::kDown, width, ffn));
    return load_linear("down", std::move(down), &w->down, &w->down_step);
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  Arithmetic arithmetic_;
  int layer_;
  PromptMatrices& prompt_;
};

std::optional<PackedFile> open_packed(const PackedFileName& name) {
  Result<PackedFile> file = PackedFile::open(name);
  if (file.ok()) return std::move(*file);
  if (file.status().code() != Code::kNotFound) log_warn("{}; packing anew", file.status().message());
  return std::nullopt;
}

Status load_blocks(const Checkpoint& checkpoint, const WeightOptions& options, ModelWeights* w) {
  if (options.arithmetic == Arithmetic::kProduction) w->packed = open_packed(options.packed);
  PromptMatrices prompt(options, w->packed ? &*w->packed : nullptr);
  const int layers = checkpoint.config().layers;
  w->blocks.reserve(static_cast<size_t>(layers));
  for (int layer = 0; layer < layers; ++layer) {
    ASSIGN_OR_RETURN(BlockWeights block, BlockLoader(checkpoint, options.arithmetic, layer, prompt).load());
    w->blocks.push_back(std::move(block));
  }
  if (options.packed.path.empty() || !prompt.packed_any()) return {};
  const Status written = write_packed_file(options.packed, prompt_matrices(*w));
  if (!written.ok()) log_info("packed weights are not kept: {}", written.message());
  return {};
}

}  // namespace

Result<StepLinear> StepLinear::pack(std::vector<RawMatrix> stacked) {
  StepLinear linear;
  const bool one_type = std::all_of(stacked.begin(), stacked.end(),
                                    [&](const RawMatrix& m) { return m.dtype == stacked[0].dtype; });
  for (const RawMatrix& m : stacked) linear.n_ += m.n;
  if (one_type && stacked.size() > 1) {
    AlignedBuffer<std::byte> all;
    if (!all.try_resize(static_cast<size_t>(linear.n_) * row_bytes(stacked[0].dtype, stacked[0].k))) {
      return no_memory(all.size());
    }
    std::byte* to = all.data();
    for (const RawMatrix& m : stacked) to = std::copy(m.rows.begin(), m.rows.end(), to);
    ASSIGN_OR_RETURN(StepMatrix part,
                     StepMatrix::pack(stacked[0].dtype, all.data(), linear.n_, stacked[0].k));
    linear.parts_.push_back(std::move(part));
    return linear;
  }
  for (const RawMatrix& m : stacked) {
    ASSIGN_OR_RETURN(StepMatrix part, StepMatrix::pack(m.dtype, m.rows.data(), m.n, m.k));
    linear.parts_.push_back(std::move(part));
  }
  return linear;
}

size_t StepLinear::bytes() const {
  size_t sum = 0;
  for (const StepMatrix& part : parts_) sum += part.bytes();
  return sum;
}

void StepLinear::apply(const float* in, int rows, float* out, bool accumulate, float* scratch) const {
  if (parts_.size() == 1) return kernels::step_linear(parts_[0], in, rows, out, accumulate);
  ISTHMUS_CHECK(!accumulate);
  int64_t column = 0;
  for (const StepMatrix& part : parts_) {
    kernels::step_linear(part, in, rows, scratch);
    for (int r = 0; r < rows; ++r) std::copy_n(scratch + r * part.n(), part.n(), out + r * n_ + column);
    column += part.n();
  }
}

size_t ModelWeights::bytes() const {
  size_t sum = embedding.size() + head_step.bytes() + (head_reference ? head_reference->bytes() : 0);
  for (const BlockWeights& b : blocks) {
    sum += b.kv.bytes() + b.q.bytes() + b.o.bytes() + b.gate_up.bytes() + b.down.bytes();
    sum += b.qkv_step.bytes() + b.o_step.bytes() + b.gate_up_step.bytes() + b.down_step.bytes();
  }
  return sum;
}

Result<ModelWeights> load_weights(const Checkpoint& checkpoint, const WeightOptions& options) {
  const ModelConfig& c = checkpoint.config();
  ModelWeights w;
  ASSIGN_OR_RETURN(const RawMatrix embedding, checkpoint.matrix(TensorRole::kEmbedding, 0, c.vocab, c.width));
  w.embedding_type = embedding.dtype;
  if (!w.embedding.try_resize(embedding.rows.size())) return no_memory(embedding.rows.size());
  std::copy(embedding.rows.begin(), embedding.rows.end(), w.embedding.data());

  const TensorRole head_role = c.tied_embeddings ? TensorRole::kEmbedding : TensorRole::kHead;
  std::vector<RawMatrix> head(1);
  ASSIGN_OR_RETURN(head[0], checkpoint.matrix(head_role, 0, c.vocab, c.width));
  if (options.arithmetic == Arithmetic::kReferenceF32) {
    ASSIGN_OR_RETURN(w.head_reference, pack_reference(head));
  } else {
    ASSIGN_OR_RETURN(w.head_step, StepLinear::pack(std::move(head)));
  }
  ASSIGN_OR_RETURN(w.output_norm, checkpoint.vector(TensorRole::kOutputNorm, 0, c.width));
  TRY(load_blocks(checkpoint, options, &w));
  return w;
}

}  // namespace isthmus
