// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace isthmus {
namespace {

Status unsupported(std::string_view what, std::string_view got) {
  return {Code::kUnsupported, "config: " + std::string(what) + ", got '" + std::string(got) + "'"};
}

Status read_size(const Json& object, const std::string& key, std::string_view where, int* out) {
  ASSIGN_OR_RETURN(const int64_t v, get_int(object, key, where));
  if (v < 1 || v > (1 << 28)) {
    return {Code::kCorrupt,
            std::string(where) + ": " + key + ": expected 1 to 2^28, got " + std::to_string(v)};
  }
  *out = static_cast<int>(v);
  return {};
}

// Constants are kept as the float nearest to them: GGUF stores floats and config.json decimals, and both name
// one model.
Result<double> read_float(const Json& object, const std::string& key, std::string_view where) {
  ASSIGN_OR_RETURN(const double v, get_double(object, key, where));
  return static_cast<double>(static_cast<float>(v));
}

Status refuse_true(const Json& config, std::string_view key, std::string_view where) {
  ASSIGN_OR_RETURN(const std::optional<bool> v, find_bool(config, key, where));
  return v.value_or(false) ? unsupported(std::string(key) + ": expected false", "true") : Status();
}

// `scaling`: config.json's rope_scaling or rope_parameters object. Sets theta too where the object carries
// it.
Status read_hf_scaling(const Json& scaling, RopeConfig* rope) {
  constexpr std::string_view kWhere = "config.json: rope_scaling";
  ASSIGN_OR_RETURN(std::optional<std::string> type, find_string(scaling, "rope_type", kWhere));
  if (!type) {
    ASSIGN_OR_RETURN(type, find_string(scaling, "type", kWhere));
  }
  ASSIGN_OR_RETURN(const std::optional<double> theta, find_double(scaling, "rope_theta", kWhere));
  if (theta) rope->theta = static_cast<float>(*theta);
  if (!type || *type == "default") return {};
  if (*type != "linear" && *type != "llama3")
    return unsupported("RoPE type: expected default, linear or llama3", *type);
  ASSIGN_OR_RETURN(rope->factor, read_float(scaling, "factor", kWhere));
  if (*type == "linear") {
    rope->scaling = RopeScaling::kLinear;
    return {};
  }
  rope->scaling = RopeScaling::kLlama3;
  ASSIGN_OR_RETURN(rope->low_freq_factor, read_float(scaling, "low_freq_factor", kWhere));
  ASSIGN_OR_RETURN(rope->high_freq_factor, read_float(scaling, "high_freq_factor", kWhere));
  ASSIGN_OR_RETURN(rope->original_max_positions,
                   get_int(scaling, "original_max_position_embeddings", kWhere));
  return {};
}

Status read_hf_rope(const Json& config, RopeConfig* rope) {
  constexpr std::string_view kWhere = "config.json";
  ASSIGN_OR_RETURN(const std::optional<double> theta, find_double(config, "rope_theta", kWhere));
  if (theta) rope->theta = static_cast<float>(*theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto it = config.find(key);
    if (it == config.end() || it->is_null()) continue;
    if (!it->is_object()) return unsupported(std::string(key) + ": expected an object", it->type_name());
    TRY(read_hf_scaling(*it, rope));
  }
  if (rope->theta == 0) return {Code::kCorrupt, "config.json: rope_theta is missing"};
  return {};
}

Status read_token(const Json& value, TokenId* out) {
  if (!value.is_number_integer() || value < 0 || value > std::numeric_limits<TokenId>::max()) {
    return {Code::kCorrupt, "config: special token: expected an id, got " + dump_ascii(value)};
  }
  *out = value.get<TokenId>();
  return {};
}

// An id, a list of ids, or nothing.
Status read_tokens(const Json& object, const std::string& key, std::vector<TokenId>* out) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return {};
  const Json list = it->is_array() ? *it : Json::array({*it});
  for (const Json& value : list) {
    TokenId id = 0;
    TRY(read_token(value, &id));
    out->push_back(id);
  }
  return {};
}

Status read_special_tokens(const Json& object, const std::string& bos_key, const std::string& eos_key,
                           ModelConfig* c) {
  std::vector<TokenId> bos;
  TRY(read_tokens(object, bos_key, &bos));
  if (!bos.empty()) c->bos = bos.front();
  return read_tokens(object, eos_key, &c->eos);
}

Status read_gguf_rope(const Json& meta, const std::string& prefix, ModelConfig* c) {
  constexpr std::string_view kWhere = "gguf";
  ASSIGN_OR_RETURN(c->rope.theta, read_float(meta, prefix + "rope.freq_base", kWhere));
  ASSIGN_OR_RETURN(const std::optional<int64_t> rotary,
                   find_int(meta, prefix + "rope.dimension_count", kWhere));
  if (rotary && *rotary != c->head_dim) {
    return unsupported("rope.dimension_count: expected " + std::to_string(c->head_dim),
                       std::to_string(*rotary));
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> type,
                   find_string(meta, prefix + "rope.scaling.type", kWhere));
  if (!type || *type == "none") return {};
  if (*type != "linear") return unsupported("RoPE scaling type: expected none or linear", *type);
  c->rope.scaling = RopeScaling::kLinear;
  ASSIGN_OR_RETURN(c->rope.factor, read_float(meta, prefix + "rope.scaling.factor", kWhere));
  return {};
}

constexpr std::pair<RopeScaling, const char*> kScalingNames[] = {{RopeScaling::kNone, "none"},
                                                                 {RopeScaling::kLinear, "linear"},
                                                                 {RopeScaling::kLlama3, "llama3"},
                                                                 {RopeScaling::kFactors, "factors"}};

Status rope_error(const std::string& what) {
  return {Code::kUnsupported, "config: RoPE " + what};
}

Status check_scaling(const RopeConfig& r) {
  if (r.scaling == RopeScaling::kLlama3 &&
      !(r.low_freq_factor > 0 && r.high_freq_factor > r.low_freq_factor && r.original_max_positions > 0)) {
    return rope_error(
        "llama3 scaling: expected 0 < low_freq_factor < high_freq_factor and an original length");
  }
  if (r.scaling != RopeScaling::kFactors) return {};
  if (r.freq_factors.size() != static_cast<size_t>(r.rotary_dim / 2))
    return rope_error("factors: wrong count");
  for (const float f : r.freq_factors) {
    if (!(f > 0) || !std::isfinite(f)) return rope_error("factors: expected positive numbers");
  }
  return {};
}

Status check_rope(const RopeConfig& r) {
  if (!(r.theta > 1 && r.theta < 1e12)) {
    return rope_error("theta: expected 1 to 1e12, got " + std::to_string(r.theta));
  }
  if (!(r.factor >= 1 && r.factor < 1e6)) {
    return rope_error("factor: expected at least 1, got " + std::to_string(r.factor));
  }
  if (r.rotary_dim < 2 || r.rotary_dim % 2 != 0) {
    return rope_error("dims: expected an even number, got " + std::to_string(r.rotary_dim));
  }
  return check_scaling(r);
}

}  // namespace

Json rope_json(const RopeConfig& rope) {
  Json j;
  for (const auto& [scaling, name] : kScalingNames) {
    if (scaling == rope.scaling) j["type"] = name;
  }
  j["theta"] = rope.theta;
  j["rotary_dim"] = rope.rotary_dim;
  j["factor"] = rope.factor;
  j["low_freq_factor"] = rope.low_freq_factor;
  j["high_freq_factor"] = rope.high_freq_factor;
  j["original_max_positions"] = rope.original_max_positions;
  j["freq_factors"] = Json::array();
  for (const float f : rope.freq_factors) j["freq_factors"].push_back(static_cast<double>(f));
  return j;
}

Result<RopeConfig> rope_from_json(const Json& json) {
  constexpr std::string_view kWhere = "rope";
  RopeConfig r;
  ASSIGN_OR_RETURN(const std::string type, get_string(json, "type", kWhere));
  bool known = false;
  for (const auto& [scaling, name] : kScalingNames) {
    if (type != name) continue;
    r.scaling = scaling;
    known = true;
  }
  if (!known) return unsupported("RoPE type: expected none, linear, llama3 or factors", type);
  ASSIGN_OR_RETURN(r.theta, get_double(json, "theta", kWhere));
  ASSIGN_OR_RETURN(const int64_t rotary, get_int(json, "rotary_dim", kWhere));
  if (rotary < 2 || rotary > 4096) return Status(Code::kCorrupt, "rope: rotary_dim out of range");
  r.rotary_dim = static_cast<int>(rotary);
  ASSIGN_OR_RETURN(r.factor, get_double(json, "factor", kWhere));
  ASSIGN_OR_RETURN(r.low_freq_factor, get_double(json, "low_freq_factor", kWhere));
  ASSIGN_OR_RETURN(r.high_freq_factor, get_double(json, "high_freq_factor", kWhere));
  ASSIGN_OR_RETURN(r.original_max_positions, get_int(json, "original_max_positions", kWhere));
  const auto factors = json.find("freq_factors");
  if (factors == json.end() || !factors->is_array())
    return Status(Code::kCorrupt, "rope: freq_factors is missing");
  for (const Json& f : *factors) {
    if (!f.is_number()) return Status(Code::kCorrupt, "rope: freq_factors: expected numbers");
    r.freq_factors.push_back(f.get<float>());
  }
  TRY(check_rope(r));
  return r;
}

Json arithmetic_json(const ModelConfig& c) {
  Json j;
  j["family"] = c.family;
  j["layers"] = c.layers;
  j["width"] = c.width;
  j["ffn"] = c.ffn;
  j["heads"] = c.heads;
  j["kv_heads"] = c.kv_heads;
  j["head_dim"] = c.head_dim;
  j["vocab"] = c.vocab;
  j["norm_eps"] = static_cast<double>(c.norm_eps);
  j["rope"] = rope_json(c.rope);
  j["tied_embeddings"] = c.tied_embeddings;
  j["qkv_bias"] = c.qkv_bias;
  j["output_bias"] = c.output_bias;
  j["qk_norm"] = c.qk_norm;
  return j;
}

Result<ModelConfig> read_hf_config(const Json& config, std::string_view family) {
  constexpr std::string_view kWhere = "config.json";
  ModelConfig c;
  c.family = family;
  TRY(read_size(config, "num_hidden_layers", kWhere, &c.layers));
  TRY(read_size(config, "hidden_size", kWhere, &c.width));
  TRY(read_size(config, "intermediate_size", kWhere, &c.ffn));
  TRY(read_size(config, "num_attention_heads", kWhere, &c.heads));
  TRY(read_size(config, "vocab_size", kWhere, &c.vocab));
  ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads, find_int(config, "num_key_value_heads", kWhere));
  c.kv_heads = c.heads;
  if (kv_heads) TRY(read_size(config, "num_key_value_heads", kWhere, &c.kv_heads));
  ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim, find_int(config, "head_dim", kWhere));
  if (head_dim) TRY(read_size(config, "head_dim", kWhere, &c.head_dim));
  if (!head_dim) c.head_dim = c.width / c.heads;
  c.rope.rotary_dim = c.head_dim;
  ASSIGN_OR_RETURN(const double eps, get_double(config, "rms_norm_eps", kWhere));
  c.norm_eps = static_cast<float>(eps);
  ASSIGN_OR_RETURN(c.max_positions, get_int(config, "max_position_embeddings", kWhere));
  ASSIGN_OR_RETURN(const std::optional<bool> tied, find_bool(config, "tie_word_embeddings", kWhere));
  c.tied_embeddings = tied.value_or(false);
  ASSIGN_OR_RETURN(const std::string activation, get_string(config, "hidden_act", kWhere));
  if (activation != "silu") return unsupported("hidden_act: expected silu", activation);
  TRY(refuse_true(config, "mlp_bias", kWhere));
  TRY(refuse_true(config, "use_sliding_window", kWhere));
  TRY(read_hf_rope(config, &c.rope));
  TRY(read_special_tokens(config, "bos_token_id", "eos_token_id", &c));
  return c;
}

Result<ModelConfig> read_gguf_config(const Json& meta, std::string_view family) {
  constexpr std::string_view kWhere = "gguf";
  const std::string prefix = std::string(family) + ".";
  ModelConfig c;
  c.family = family;
  TRY(read_size(meta, prefix + "block_count", kWhere, &c.layers));
  TRY(read_size(meta, prefix + "embedding_length", kWhere, &c.width));
  TRY(read_size(meta, prefix + "feed_forward_length", kWhere, &c.ffn));
  TRY(read_size(meta, prefix + "attention.head_count", kWhere, &c.heads));
  c.kv_heads = c.heads;
  if (meta.contains(prefix + "attention.head_count_kv")) {
    TRY(read_size(meta, prefix + "attention.head_count_kv", kWhere, &c.kv_heads));
  }
  c.head_dim = c.width / c.heads;
  if (meta.contains(prefix + "attention.key_length")) {
    TRY(read_size(meta, prefix + "attention.key_length", kWhere, &c.head_dim));
    int value_dim = 0;
    TRY(read_size(meta, prefix + "attention.value_length", kWhere, &value_dim));
    if (value_dim != c.head_dim)
      return unsupported("value_length: expected key_length", std::to_string(value_dim));
  }
  c.rope.rotary_dim = c.head_dim;
  ASSIGN_OR_RETURN(const double eps, get_double(meta, prefix + "attention.layer_norm_rms_epsilon", kWhere));
  c.norm_eps = static_cast<float>(eps);
  ASSIGN_OR_RETURN(c.max_positions, get_int(meta, prefix + "context_length", kWhere));
  if (meta.contains(prefix + "attention.sliding_window"))
    return unsupported("attention: expected full", "sliding_window");
  TRY(read_gguf_rope(meta, prefix, &c));
  TRY(read_special_tokens(meta, "tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", &c));
  return c;
}

Status check_config(const ModelConfig& c) {
  struct Bound {
    const char* name;
    int64_t value, max;
  };
  const Bound bounds[] = {{"layers", c.layers, 1024},
                          {"hidden size", c.width, 1 << 17},
                          {"feed-forward size", c.ffn, 1 << 20},
                          {"heads", c.heads, 1024},
                          {"KV heads", c.kv_heads, 1024},
                          {"head size", c.head_dim, 1024},
                          {"vocabulary", c.vocab, 1 << 22},
                          {"positions", c.max_positions, 1 << 24}};
  for (const Bound& b : bounds) {
    if (b.value >= 1 && b.value <= b.max) continue;
    return {Code::kUnsupported, "config: " + std::string(b.name) + ": expected 1 to " +
                                    std::to_string(b.max) + ", got " + std::to_string(b.value)};
  }
  if (c.heads % c.kv_heads != 0) {
    return {Code::kCorrupt, "config: " + std::to_string(c.heads) + " heads are no multiple of " +
                                std::to_string(c.kv_heads) + " KV heads"};
  }
  if (!(c.norm_eps > 0 && c.norm_eps < 1)) {
    return {Code::kCorrupt, "config: norm eps: expected 0 to 1, got " + std::to_string(c.norm_eps)};
  }
  if (c.rope.rotary_dim > c.head_dim) return {Code::kCorrupt, "config: RoPE dims exceed the head size"};
  for (const TokenId id : c.eos) {
    if (id >= c.vocab)
      return {Code::kCorrupt, "config: eos id " + std::to_string(id) + " is outside the vocabulary"};
  }
  return check_rope(c.rope);
}

}  // namespace isthmus
