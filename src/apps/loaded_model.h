// SPDX-License-Identifier: Apache-2.0
// Everything a role reads from a model file or folder: the model, its tokenizer and chat template, and the
// digests and identity that follow from them. Made once at start-up.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "apps/command.h"
#include "flow/identity.h"
#include "flow/plane.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isthmus {

struct ModelText {
  Tokenizer tokenizer;
  std::optional<ChatTemplate> chat_template;
};
// The text side alone: `tokenize` needs no weights.
Result<ModelText> load_text(const std::filesystem::path& path);

struct LoadedModel {
  std::string name;  // of the file or folder, without its extension
  std::unique_ptr<Model> model;
  PromptWeights prompt_weights = PromptWeights::kBf16;
  Digest weights;     // all tensors
  Digest projection;  // norm, K and V tensors and RoPE
};
// The digest and, unless the flags forbid it, the packed prompt weights are kept in the cache folder.
// chunk_tokens: prompt rows of one run of the layers.
Result<LoadedModel> load_model(const CommonOptions& common, const PromptWeightFlags& weights,
                               int64_t chunk_tokens);

// Identity of the native engine's cache bytes for this model with blocks of `layout`.
Identity native_identity(const LoadedModel& m, const Tokenizer& tokenizer, const PlaneLayout& layout);
PlaneLayout layout_of(const Model& model, int block_tokens);

}  // namespace isthmus
