// SPDX-License-Identifier: Apache-2.0
// The two measurements of `isthmus eval`: our arithmetic against another engine's logits, and bridged answers
// against a reference (eval_pairs.cpp). Each returns what it found as one JSON object and shows progress on
// standard error. One thread; heavy: they load models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "model/prompt_weights.h"

namespace isthmus {

struct ReferenceLogitsOptions {
  std::filesystem::path model;
  std::vector<std::filesystem::path> files;  // safetensors: ids, logits, first
  PromptWeights prompt_weights = PromptWeights::kBf16;
};
// Errors: those of the model, kInvalidArgument (a file that does not fit the model), kCorrupt.
Result<Json> eval_reference_logits(const ReferenceLogitsOptions& o);

struct PairOptions {
  std::filesystem::path reference;  // its values in f32 are what is held to be right
  std::vector<std::filesystem::path> prefills, decoders;
  std::filesystem::path documents;
  int64_t prompt_tokens = 1200;
  int64_t continuation_tokens = 64;
};
// Every decoder alone and behind every prefill engine, in both capture modes. Errors: those of the models,
// kInvalidArgument (documents, models that do not fit).
Result<Json> eval_pairs(const PairOptions& o);
// The part of that result that people read, as tables.
Json pair_tables(const Json& result);

}  // namespace isthmus
