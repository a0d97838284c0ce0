// SPDX-License-Identifier: Apache-2.0
// ModelConfig: the shape and constants of a decoder, read from GGUF metadata or an HF config.json. Values;
// any thread. Every number is range-checked here, so that code below may multiply sizes without fear.
// Whatever the families cannot compute (unknown RoPE type, sliding windows, other activations) is refused
// here with a sentence. Not the weights: see weights.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/token.h"

namespace isthmus {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,   // frequencies / factor
  kLlama3,   // long wavelengths / factor, short ones kept, a ramp between
  kFactors,  // frequency i / freq_factors[i], as stored in some GGUF files
};

struct RopeConfig {
  double theta = 0;
  int rotary_dim = 0;  // first values of a head that are rotated; even
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_freq_factor = 0, high_freq_factor = 0;  // kLlama3
  int64_t original_max_positions = 0;                // kLlama3
  std::vector<float> freq_factors;                   // kFactors: [rotary_dim / 2]

  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  std::string family;  // "llama", "qwen2", "qwen3"
  int layers = 0;
  int width = 0;     // E
  int ffn = 0;       // F
  int heads = 0;     // H
  int kv_heads = 0;  // Hk
  int head_dim = 0;  // D
  int vocab = 0;     // V
  float norm_eps = 0;
  RopeConfig rope;
  int64_t max_positions = 0;
  bool tied_embeddings = false;
  bool qkv_bias = false;
  bool output_bias = false;  // on the attention's output projection
  bool qk_norm = false;      // per-head RMS norm of q and k before RoPE
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;

  int64_t q_width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads} * head_dim; }
};

// The fields that change what the model computes, for identities: dump_canonical() of it is stable.
Json arithmetic_json(const ModelConfig& config);
Json rope_json(const RopeConfig& rope);
Result<RopeConfig> rope_from_json(const Json& json);  // of rope_json's form; kCorrupt otherwise

// What the families share. `config`: a parsed config.json; `metadata`: a GGUF file's scalar key/value pairs
// as one flat object, keys under "<family>.". The vocabulary size may be 0 after read_gguf_config: the
// embedding's shape tells.
Result<ModelConfig> read_hf_config(const Json& config, std::string_view family);
Result<ModelConfig> read_gguf_config(const Json& metadata, std::string_view family);

// Bounds on every size and the relations between them. kUnsupported or kCorrupt, naming the field.
Status check_config(const ModelConfig& config);

}  // namespace isthmus
