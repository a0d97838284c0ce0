// SPDX-License-Identifier: Apache-2.0
// What one model family adds to the shared decoder: how its configuration is read, which tensors a layer has
// and what they are called in both kinds of model file, and how they are cleaned up. One constant per family,
// each in a file named after it. Values; any thread. A new family of this shape is one file and one line in
// family.cpp.
#pragma once

#include <span>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "model/config.h"

namespace isthmus {

enum class TensorRole : uint8_t {
  kInputNorm,
  kQ,
  kK,
  kV,
  kQBias,
  kKBias,
  kVBias,
  kQNorm,
  kKNorm,
  kO,
  kOBias,  // attention
  kPostNorm,
  kGate,
  kUp,
  kDown,  // MLP
  kEmbedding,
  kOutputNorm,
  kHead,
  kRopeFactors,  // model
};

struct TensorName {
  TensorRole role;
  std::string_view hf;  // '#' stands for the layer's number; empty: not in such files
  std::string_view gguf;
};

struct Family {
  std::string_view name;  // HF model_type and GGUF general.architecture
  Result<ModelConfig> (*read_hf)(const Json& config);
  Result<ModelConfig> (*read_gguf)(const Json& metadata);
  std::span<const TensorName> tensors;
  // GGUF files hold q and k rows in interleaved-RoPE order: undone at load, so that K is half-split for every
  // source.
  bool gguf_interleaves_qk = false;
};

extern const Family kLlamaFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;

// kUnsupported, naming what is known.
Result<const Family*> find_family(std::string_view name);

}  // namespace isthmus
