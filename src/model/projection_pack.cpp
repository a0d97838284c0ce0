// SPDX-License-Identifier: Apache-2.0
#include "model/projection_pack.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

// One tensor of a layer, in the pack's order. Present when the configuration says so.
struct Part {
  const char* name;
  TensorRole role;
  DType dtype;
  bool matrix;  // [Hk * D, E]; else a vector
  bool present;
  int64_t n;  // rows, or the vector's length
};

std::vector<Part> parts_of(const ModelConfig& c) {
  const int64_t kv = c.kv_width();
  const std::vector<Part> all = {{"input_norm", TensorRole::kInputNorm, DType::kF32, false, true, c.width},
                                 {"k", TensorRole::kK, DType::kBF16, true, true, kv},
                                 {"k_bias", TensorRole::kKBias, DType::kF32, false, c.qkv_bias, kv},
                                 {"k_norm", TensorRole::kKNorm, DType::kF32, false, c.qk_norm, c.head_dim},
                                 {"v", TensorRole::kV, DType::kBF16, true, true, kv},
                                 {"v_bias", TensorRole::kVBias, DType::kF32, false, c.qkv_bias, kv}};
  std::vector<Part> present;
  std::copy_if(all.begin(), all.end(), std::back_inserter(present), [](const Part& p) { return p.present; });
  return present;
}

std::string part_name(int layer, const Part& part) {
  return "layers." + std::to_string(layer) + "." + part.name;
}

std::vector<int64_t> part_shape(const ModelConfig& c, const Part& part) {
  return part.matrix ? std::vector<int64_t>{part.n, c.width} : std::vector<int64_t>{part.n};
}

Json config_json(const ModelConfig& c) {
  Json j;
  j["layers"] = c.layers;
  j["width"] = c.width;
  j["kv_heads"] = c.kv_heads;
  j["head_dim"] = c.head_dim;
  j["norm_eps"] = static_cast<double>(c.norm_eps);
  j["rope"] = rope_json(c.rope);
  j["max_positions"] = c.max_positions;
  j["kv_bias"] = c.qkv_bias;
  j["k_norm"] = c.qk_norm;
  return j;
}

Status read_dimension(const Json& json, const char* key, std::string_view where, int* out) {
  ASSIGN_OR_RETURN(const int64_t v, get_int(json, key, where));
  if (v < 1 || v > (1 << 20)) return {Code::kCorrupt, std::string(where) + ": " + key + " is out of range"};
  *out = static_cast<int>(v);
  return {};
}

Result<ModelConfig> config_from_json(std::string_view text, std::string_view where) {
  ASSIGN_OR_RETURN(const Json json, parse_json(text, where));
  ModelConfig c;
  TRY(read_dimension(json, "layers", where, &c.layers));
  TRY(read_dimension(json, "width", where, &c.width));
  TRY(read_dimension(json, "kv_heads", where, &c.kv_heads));
  TRY(read_dimension(json, "head_dim", where, &c.head_dim));
  ASSIGN_OR_RETURN(const double eps, get_double(json, "norm_eps", where));
  c.norm_eps = static_cast<float>(eps);
  const auto rope = json.find("rope");
  if (rope == json.end()) return Status(Code::kCorrupt, std::string(where) + ": rope is missing");
  ASSIGN_OR_RETURN(c.rope, rope_from_json(*rope));
  ASSIGN_OR_RETURN(c.max_positions, get_int(json, "max_positions", where));
  ASSIGN_OR_RETURN(const std::optional<bool> bias, find_bool(json, "kv_bias", where));
  ASSIGN_OR_RETURN(const std::optional<bool> norm, find_bool(json, "k_norm", where));
  c.qkv_bias = bias.value_or(false);
  c.qk_norm = norm.value_or(false);
  // What a projection does not know takes a value that passes the common check.
  c.heads = c.kv_heads;
  c.ffn = c.vocab = 1;
  TRY(check_config(c));
  return c;
}

// Configuration, then name, type and bytes of each tensor, layer by layer; every variable-length item behind
// its length.
Digest digest_of(const ModelConfig& c, std::span<const TensorView> tensors) {
  Sha256 hash;
  const auto add = [&hash](std::span<const std::byte> item) {
    const uint64_t length = item.size();
    hash.update(std::as_bytes(std::span(&length, 1))).update(item);
  };
  add(as_byte_span(kProjectionPackFormat));
  add(as_byte_span(dump_canonical(config_json(c))));
  for (const TensorView& t : tensors) {
    add(as_byte_span(t.name));
    add(as_byte_span(dtype_info(t.dtype).name));
    add(t.data);
  }
  return hash.finish();
}

struct Content {
  std::vector<AlignedBuffer<std::byte>> owned;
  std::vector<TensorView> tensors;  // in the order of the digest
};

Result<AlignedBuffer<std::byte>> part_bytes(const Checkpoint& checkpoint, const Part& part, int layer) {
  AlignedBuffer<std::byte> out;
  if (!part.matrix) {
    ASSIGN_OR_RETURN(const std::vector<float> values, checkpoint.vector(part.role, layer, part.n));
    out = AlignedBuffer<std::byte>(values.size() * sizeof(float));
    std::memcpy(out.data(), values.data(), out.size());
    return out;
  }
  ASSIGN_OR_RETURN(const RawMatrix m, checkpoint.matrix(part.role, layer, part.n, checkpoint.config().width));
  ASSIGN_OR_RETURN(const AlignedBuffer<float> values, expand(m));
  if (!out.try_resize(values.size() * sizeof(bf16))) {
    return Status(Code::kResourceExhausted, "projection pack: no memory");
  }
  bf16* to = reinterpret_cast<bf16*>(out.data());
  std::transform(values.data(), values.data() + values.size(), to, to_bf16);
  return out;
}

Result<Content> content_of(const Checkpoint& checkpoint) {
  const ModelConfig& c = checkpoint.config();
  Content content;
  for (int layer = 0; layer < c.layers; ++layer) {
    for (const Part& part : parts_of(c)) {
      ASSIGN_OR_RETURN(AlignedBuffer<std::byte> bytes, part_bytes(checkpoint, part, layer));
      content.tensors.push_back({.name = part_name(layer, part),
                                 .dtype = part.dtype,
                                 .shape = part_shape(c, part),
                                 .data = {bytes.data(), bytes.size()}});
      content.owned.push_back(std::move(bytes));
    }
  }
  return content;
}

Result<std::string> metadata_value(const Safetensors& file, const std::string& key, std::string_view where) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end())
    return Status(Code::kCorrupt, std::string(where) + ": metadata '" + key + "' is missing");
  return it->second;
}

Status check_format(const Safetensors& file, std::string_view where) {
  ASSIGN_OR_RETURN(const std::string format, metadata_value(file, "format", where));
  ASSIGN_OR_RETURN(const std::string version, metadata_value(file, "version", where));
  if (format == kProjectionPackFormat && version == std::to_string(kProjectionPackVersion)) return {};
  return {Code::kUnsupported, std::string(where) + ": expected " + std::string(kProjectionPackFormat) +
                                  " version " + std::to_string(kProjectionPackVersion) + ", got " + format +
                                  " version " + version};
}

// The pack's tensors in digest order, each with the type and shape that the configuration asks for, and no
// others.
Result<std::vector<TensorView>> ordered_tensors(const Safetensors& file, const ModelConfig& c,
                                                std::string_view where) {
  std::vector<TensorView> ordered;
  for (int layer = 0; layer < c.layers; ++layer) {
    for (const Part& part : parts_of(c)) {
      ASSIGN_OR_RETURN(const TensorView* t, file.tensors().get(part_name(layer, part)));
      if (t->dtype != part.dtype || t->shape != part_shape(c, part)) {
        return Status(Code::kCorrupt,
                      std::string(where) + ": " + t->name + ": expected " +
                          std::string(dtype_info(part.dtype).name) + " " + shape_text(part_shape(c, part)) +
                          ", got " + std::string(dtype_info(t->dtype).name) + " " + shape_text(t->shape));
      }
      ordered.push_back(*t);
    }
  }
  if (ordered.size() == file.tensors().size()) return ordered;
  return Status(Code::kCorrupt, std::string(where) + ": expected " + std::to_string(ordered.size()) +
                                    " tensors, got " + std::to_string(file.tensors().size()));
}

template <typename T>
std::vector<T> values_of(const TensorView& t) {
  std::vector<T> values(t.data.size() / sizeof(T));
  std::memcpy(values.data(), t.data.data(), values.size() * sizeof(T));
  return values;
}

Result<KvProjection> layer_from(const ModelConfig& c, std::span<const TensorView> tensors) {
  KvProjectionWeights w;
  const std::vector<Part> parts = parts_of(c);
  for (size_t i = 0; i < parts.size(); ++i) {
    const TensorRole role = parts[i].role;
    if (parts[i].matrix) {
      const std::vector<bf16> values = values_of<bf16>(tensors[i]);
      ASSIGN_OR_RETURN((role == TensorRole::kK ? w.k : w.v),
                       kernels::PackedMatrix::pack(values.data(), parts[i].n, c.width));
      continue;
    }
    std::vector<float>& to = role == TensorRole::kInputNorm ? w.input_norm
                             : role == TensorRole::kKNorm   ? w.k_norm
                             : role == TensorRole::kKBias   ? w.k_bias
                                                            : w.v_bias;
    to = values_of<float>(tensors[i]);
  }
  return KvProjection(c, std::move(w));
}

}  // namespace

Result<Bytes> export_projection(const Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(const Content content, content_of(checkpoint));
  const ModelConfig& c = checkpoint.config();
  return write_safetensors(content.tensors, {{"format", std::string(kProjectionPackFormat)},
                                             {"version", std::to_string(kProjectionPackVersion)},
                                             {"config", dump_canonical(config_json(c))},
                                             {"digest", digest_of(c, content.tensors).hex()}});
}

Result<Digest> projection_digest(const Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(const Content content, content_of(checkpoint));
  return digest_of(checkpoint.config(), content.tensors);
}

Result<ProjectionPack> load_projection_pack(std::span<const std::byte> bytes, std::string_view where) {
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::parse(bytes, where));
  TRY(check_format(file, where));
  ProjectionPack pack;
  ASSIGN_OR_RETURN(const std::string config, metadata_value(file, "config", where));
  ASSIGN_OR_RETURN(pack.config, config_from_json(config, where));
  ASSIGN_OR_RETURN(const std::vector<TensorView> tensors, ordered_tensors(file, pack.config, where));
  ASSIGN_OR_RETURN(const std::string stated, metadata_value(file, "digest", where));
  pack.digest = digest_of(pack.config, tensors);
  if (stated != pack.digest.hex()) {
    return Status(Code::kMismatch, std::string(where) + ": digest: content has " + pack.digest.hex() +
                                       ", pack states " + stated.substr(0, 64));
  }
  ASSIGN_OR_RETURN(pack.rope, RopeTable::create(pack.config.rope, pack.config.max_positions));
  const size_t per_layer = parts_of(pack.config).size();
  for (size_t layer = 0; layer < static_cast<size_t>(pack.config.layers); ++layer) {
    ASSIGN_OR_RETURN(KvProjection projection,
                     layer_from(pack.config, std::span(tensors).subspan(layer * per_layer, per_layer)));
    pack.layers.push_back(std::move(projection));
  }
  return pack;
}

}  // namespace isthmus
