// SPDX-License-Identifier: Apache-2.0
#include "apps/loaded_model.h"

#include "base/log.h"
#include "model/projection_pack.h"
#include "tensor/gguf.h"
#include "tensor/weights_digest.h"
#include "text/tokenizer_gguf.h"
#include "text/tokenizer_json.h"

namespace isthmus {
namespace {

constexpr size_t kMaxTextFileBytes = 64u << 20;

Result<std::optional<ChatTemplate>> parse_template(const std::optional<std::string>& source,
                                                   const Tokenizer& tokenizer) {
  if (!source) return std::optional<ChatTemplate>();
  ChatTemplateOptions options;
  if (tokenizer.bos_id() >= 0) options.bos_token = std::string(tokenizer.token_bytes(tokenizer.bos_id()));
  if (!tokenizer.end_ids().empty())
    options.eos_token = std::string(tokenizer.token_bytes(tokenizer.end_ids().front()));
  ASSIGN_OR_RETURN(ChatTemplate parsed, ChatTemplate::parse(*source, options));
  return std::optional<ChatTemplate>(std::move(parsed));
}

Result<ModelText> text_of_gguf(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  ASSIGN_OR_RETURN(TokenizerSpec spec, tokenizer_spec_from_gguf(file));
  ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(std::move(spec)));
  ASSIGN_OR_RETURN(const std::optional<std::string_view> found, file.find_string("tokenizer.chat_template"));
  const auto source = found ? std::optional<std::string>(*found) : std::nullopt;
  ASSIGN_OR_RETURN(auto chat, parse_template(source, tokenizer));
  return ModelText{std::move(tokenizer), std::move(chat)};
}

// transformers keeps the template in its own file, or as a string in tokenizer_config.json.
Result<std::optional<std::string>> template_of_folder(const std::filesystem::path& path,
                                                      const std::string& config_text) {
  const auto own = read_text_file(path / "chat_template.jinja", kMaxTextFileBytes);
  if (own.ok()) return std::optional<std::string>(*own);
  if (config_text.empty()) return std::optional<std::string>();
  ASSIGN_OR_RETURN(const Json config, parse_json(config_text, "tokenizer_config.json"));
  return find_string(config, "chat_template", "tokenizer_config.json");
}

Result<ModelText> text_of_folder(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string tokenizer_text,
                   read_text_file(path / "tokenizer.json", kMaxTextFileBytes));
  const auto config = read_text_file(path / "tokenizer_config.json", kMaxTextFileBytes);
  const std::string config_text = config.ok() ? *config : std::string();
  ASSIGN_OR_RETURN(TokenizerSpec spec, tokenizer_spec_from_json(tokenizer_text, config_text));
  ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::create(std::move(spec)));
  ASSIGN_OR_RETURN(const auto source, template_of_folder(path, config_text));
  ASSIGN_OR_RETURN(auto chat, parse_template(source, tokenizer));
  return ModelText{std::move(tokenizer), std::move(chat)};
}

// One file for each model path and form, so that a changed model replaces its old one.
PackedFileName packed_file_of(const CommonOptions& common, const Digest& weights, PromptWeights form) {
  const std::filesystem::path model = resolved_path(common.model);
  return {
      .path = std::filesystem::absolute(common.cache) / "packed" /
              (sha256(model.string()).hex() + "-" + std::string(prompt_weights_name(form)) + ".safetensors"),
      .key = weights.hex() + " " + prompt_arithmetic(form),
      .model = model};
}

}  // namespace

Result<ModelText> load_text(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? text_of_folder(path) : text_of_gguf(path);
}

Result<LoadedModel> load_model(const CommonOptions& common, const PromptWeightFlags& weights,
                               int64_t chunk_tokens) {
  LoadedModel m;
  m.name = common.model.stem().string();
  m.prompt_weights = *parse_prompt_weights(weights.form);
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(common.model));
  m.weights = cached_weights_digest(checkpoint.tensors(), checkpoint.files(), common.cache / "digests");
  ModelOptions options{.chunk_tokens = chunk_tokens, .prompt_weights = m.prompt_weights};
  if (!weights.no_packed_file) options.packed = packed_file_of(common, m.weights, m.prompt_weights);
  ASSIGN_OR_RETURN(m.model, Model::load(std::move(checkpoint), options));
  ASSIGN_OR_RETURN(m.projection, projection_digest(m.model->checkpoint()));
  log_info("model {}: {} layers, weights {}", m.name, m.model->config().layers,
           m.weights.hex().substr(0, 12));
  return m;
}

PlaneLayout layout_of(const Model& model, int block_tokens) {
  const KvShape shape = model.kv_shape();
  return native_layout(shape.layers, int64_t{shape.kv_heads} * shape.head_dim, block_tokens, shape.dtype);
}

Identity native_identity(const LoadedModel& m, const Tokenizer& tokenizer, const PlaneLayout& layout) {
  return Identity::of({{"version", kIdentityVersion},
                       {"layout", "native"},
                       {"block_tokens", layout.block_tokens},
                       {"cache_dtype", dtype_info(m.model->kv_shape().dtype).name},
                       {"arithmetic", prompt_arithmetic(m.prompt_weights)},
                       {"model", arithmetic_json(m.model->config())},
                       {"weights", m.weights.hex()},
                       {"projection", m.projection.hex()},
                       {"tokenizer", tokenizer.tokenizer_digest().hex()}});
}

}  // namespace isthmus
