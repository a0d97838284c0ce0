// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/block_format.h"
#include "model/gguf_metadata.h"
#include "model/parallel.h"
#include "tensor/gguf.h"
#include "tensor/hf_directory.h"

namespace isthmus {
namespace {

// Left over by old exporters; computed from the configuration instead.
bool is_derived(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq");
}

bool is_layer_role(TensorRole role) {
  return role < TensorRole::kEmbedding;
}

// Whether a model of this configuration multiplies with such a tensor. Stored but unused, it is another model
// than configured.
bool is_used(TensorRole role, const ModelConfig& c) {
  switch (role) {
    case TensorRole::kQBias:
    case TensorRole::kKBias:
    case TensorRole::kVBias:
      return c.qkv_bias;
    case TensorRole::kOBias:
      return c.output_bias;
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
      return c.qk_norm;
    default:
      return true;  // a head beside tied embeddings is a copy
  }
}

std::string with_layer(std::string_view pattern, int layer) {
  const size_t at = pattern.find('#');
  if (at == std::string_view::npos) return std::string(pattern);
  return std::string(pattern.substr(0, at)) + std::to_string(layer) + std::string(pattern.substr(at + 1));
}

// Row j * D/2 + i of each head comes from row 2i + j: from pairs side by side to pairs half a head apart.
AlignedBuffer<std::byte> half_split_rows(std::span<const std::byte> rows, int64_t n, int64_t head_dim) {
  AlignedBuffer<std::byte> out(rows.size());
  const size_t row = rows.size() / static_cast<size_t>(n);
  for (int64_t r = 0; r < n; ++r) {
    const int64_t head = r / head_dim * head_dim, in_head = r % head_dim;
    const int64_t from = head + 2 * (in_head % (head_dim / 2)) + in_head / (head_dim / 2);
    std::memcpy(out.data() + static_cast<size_t>(r) * row, rows.data() + static_cast<size_t>(from) * row,
                row);
  }
  return out;
}

}  // namespace

Result<AlignedBuffer<float>> expand(const RawMatrix& m) {
  AlignedBuffer<float> out;
  if (!out.try_resize(static_cast<size_t>(m.n * m.k))) {
    return Status(Code::kResourceExhausted, "model: no memory for " + std::to_string(m.n * m.k) + " values");
  }
  const size_t row = row_bytes(m.dtype, m.k);
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 18) / m.k);
  parallel_for(m.n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernels::dequantize_row(m.dtype, m.rows.data() + static_cast<size_t>(r) * row, m.k,
                              out.data() + r * m.k);
    }
  });
  return out;
}

struct Checkpoint::Source {
  std::optional<GgufFile> gguf;
  std::optional<HfDirectory> hf;

  const TensorTable& tensors() const { return gguf ? gguf->tensors() : hf->tensors(); }
};

Checkpoint::Checkpoint() : source_(std::make_unique<Source>()) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
  Checkpoint c;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    ASSIGN_OR_RETURN(HfDirectory hf, HfDirectory::open(path));
    ASSIGN_OR_RETURN(const std::string type, get_string(hf.config(), "model_type", "config.json"));
    ASSIGN_OR_RETURN(c.family_, find_family(type));
    ASSIGN_OR_RETURN(c.config_, c.family_->read_hf(hf.config()));
    c.files_ = hf.weight_files();
    c.source_->hf.emplace(std::move(hf));
  } else {
    ASSIGN_OR_RETURN(const FileStamp stamp, file_stamp(path));
    ASSIGN_OR_RETURN(GgufFile gguf, GgufFile::open(path));
    ASSIGN_OR_RETURN(const std::string_view type, gguf.get_string("general.architecture"));
    ASSIGN_OR_RETURN(c.family_, find_family(type));
    ASSIGN_OR_RETURN(c.config_, c.family_->read_gguf(gguf_scalars(gguf)));
    c.files_.push_back({path, stamp});
    c.source_->gguf.emplace(std::move(gguf));
  }
  TRY(c.complete_config());
  TRY(check_config(c.config_));
  TRY(c.check_tensors());
  return c;
}

const TensorTable& Checkpoint::tensors() const {
  return source_->tensors();
}

// GGUF says by its tensors what config.json says by its fields.
Status Checkpoint::complete_config() {
  if (!source_->gguf) return {};
  const TensorTable& tensors = source_->tensors();
  ASSIGN_OR_RETURN(const TensorView* embedding, tensors.get(tensor_name(TensorRole::kEmbedding, 0)));
  if (embedding->shape.size() != 2 || embedding->shape[0] > (1 << 28)) {
    return {Code::kCorrupt, "gguf: embedding: expected [V, E], got " + shape_text(embedding->shape)};
  }
  config_.vocab = static_cast<int>(embedding->shape[0]);
  config_.tied_embeddings = tensors.find(tensor_name(TensorRole::kHead, 0)) == nullptr;
  const std::string factors = tensor_name(TensorRole::kRopeFactors, 0);
  if (!factors.empty() && tensors.find(factors) != nullptr) {
    if (config_.rope.scaling != RopeScaling::kNone) {
      return {Code::kUnsupported, "gguf: RoPE: both scaling and frequency factors are given"};
    }
    config_.rope.scaling = RopeScaling::kFactors;
    ASSIGN_OR_RETURN(config_.rope.freq_factors,
                     vector(TensorRole::kRopeFactors, 0, config_.rope.rotary_dim / 2));
  }
  return {};
}

Status Checkpoint::check_tensors() const {
  std::set<std::string> used;
  for (const TensorName& t : family_->tensors) {
    if (!is_used(t.role, config_)) continue;
    const int layers = is_layer_role(t.role) ? config_.layers : 1;
    for (int layer = 0; layer < layers; ++layer) used.insert(tensor_name(t.role, layer));
  }
  for (const TensorView& t : tensors()) {
    if (used.contains(t.name) || is_derived(t.name)) continue;
    return {Code::kUnsupported, "model: tensor " + quote_name(t.name) + " is not part of a " +
                                    config_.family + " model of " + std::to_string(config_.layers) +
                                    " layers"};
  }
  return {};
}

std::string Checkpoint::tensor_name(TensorRole role, int layer) const {
  for (const TensorName& t : family_->tensors) {
    if (t.role == role) return with_layer(source_->gguf ? t.gguf : t.hf, layer);
  }
  return {};
}

bool Checkpoint::interleaved(TensorRole role) const {
  const bool qk = role == TensorRole::kQ || role == TensorRole::kK || role == TensorRole::kQBias ||
                  role == TensorRole::kKBias;
  return qk && source_->gguf && family_->gguf_interleaves_qk;
}

Result<RawMatrix> Checkpoint::matrix(TensorRole role, int layer, int64_t n, int64_t k) const {
  const std::string name = tensor_name(role, layer);
  ISTHMUS_CHECK(!name.empty());
  ASSIGN_OR_RETURN(const TensorView* t, source_->tensors().get(name));
  const int64_t rows = t->shape.size() == 2 ? t->shape[0] : 1;
  if (t->shape.empty() || t->shape.size() > 2 || rows != n || t->shape.back() != k) {
    const int64_t expected[] = {n, k};
    return Status(Code::kCorrupt,
                  "model: " + name + ": expected " + shape_text(expected) + ", got " + shape_text(t->shape));
  }
  if (t->dtype == DType::kI8 || t->dtype == DType::kU8 || t->dtype == DType::kI32 ||
      t->dtype == DType::kI64 || t->dtype == DType::kF8E8M0 || t->dtype == DType::kF8E4M3) {
    return Status(Code::kUnsupported, "model: " + name + ": type " + std::string(dtype_info(t->dtype).name));
  }
  RawMatrix m{.dtype = t->dtype, .n = n, .k = k, .rows = t->data, .owned = {}};
  if (interleaved(role) && n > 1) {
    m.owned = half_split_rows(t->data, n, config_.head_dim);
    m.rows = {m.owned.data(), m.owned.size()};
  }
  return m;
}

Result<std::vector<float>> Checkpoint::vector(TensorRole role, int layer, int64_t n) const {
  ASSIGN_OR_RETURN(const RawMatrix m, matrix(role, layer, 1, n));
  ASSIGN_OR_RETURN(const AlignedBuffer<float> values, expand(m));
  std::vector<float> out(values.data(), values.data() + n);
  if (interleaved(role)) {
    const auto bytes = half_split_rows(std::as_bytes(std::span(out)), n, config_.head_dim);
    std::memcpy(out.data(), bytes.data(), bytes.size());
  }
  return out;
}

}  // namespace isthmus
