// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>

#include "apps/inspect.h"
#include "apps/loaded_model.h"
#include "model/checkpoint.h"
#include "model/projection_pack.h"
#include "tensor/gguf.h"
#include "tensor/hf_directory.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;

Json dimensions_json(const ModelConfig& c) {
  return {{"layers", c.layers},
          {"width", c.width},
          {"ffn", c.ffn},
          {"heads", c.heads},
          {"kv_heads", c.kv_heads},
          {"head_dim", c.head_dim},
          {"vocab", c.vocab},
          {"max_positions", c.max_positions},
          {"tied_embeddings", c.tied_embeddings}};
}

Json text_json(const stdfs::path& path) {
  const auto text = load_text(path);
  if (!text.ok()) return {{"unusable", text.status().message()}};
  const Tokenizer& t = text->tokenizer;
  return {{"kind", "byte-level BPE"},
          {"vocab", t.vocab_size()},
          {"adds_bos", t.adds_bos()},
          {"end_ids", t.end_ids()},
          {"digest", t.tokenizer_digest().hex()},
          {"chat_template", text->chat_template.has_value()}};
}

// The names that the file itself gives, before anything about it is understood.
void add_gguf_names(const GgufFile& file, Json& j) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"general.architecture", "architecture"},
                                                            {"general.name", "name"},
                                                            {"tokenizer.ggml.pre", "pre_tokenizer"}};
  for (const auto& [key, name] : kNames) {
    const auto value = file.find_string(key);
    if (value.ok() && *value) j[name] = std::string(**value);
  }
  j["gguf_version"] = file.version();
}

Result<Json> types_in_file(const stdfs::path& path, Json& j) {
  std::error_code ignored;
  if (stdfs::is_directory(path, ignored)) {
    ASSIGN_OR_RETURN(const HfDirectory folder, HfDirectory::open(path));
    return tensor_types_json(folder.tensors().all());
  }
  ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(path));
  add_gguf_names(file, j);
  return tensor_types_json(file.tensors().all());
}

}  // namespace

Json tensor_types_json(const std::vector<TensorView>& tensors) {
  struct Count {
    uint64_t tensors = 0, bytes = 0;
    int64_t values = 0;
  };
  std::map<std::string_view, Count> counts;
  for (const TensorView& t : tensors) {
    Count& c = counts[dtype_info(t.dtype).name];
    ++c.tensors;
    c.bytes += t.data.size();
    c.values += t.elements();
  }
  Json types = Json::array();
  for (const auto& [name, c] : counts) {
    types.push_back({{"type", name}, {"tensors", c.tensors}, {"values", c.values}, {"bytes", c.bytes}});
  }
  return types;
}

Result<Json> describe_model(const stdfs::path& path, const stdfs::path& cache) {
  std::error_code ignored;
  Json j = {{"what", stdfs::is_directory(path, ignored) ? "Hugging Face model folder" : "GGUF model"}};
  ASSIGN_OR_RETURN(Json types, types_in_file(path, j));
  const auto checkpoint = Checkpoint::open(path);
  if (checkpoint.ok()) {
    const ModelConfig& c = checkpoint->config();
    j["family"] = c.family;
    j["dimensions"] = dimensions_json(c);
    j["rope"] = rope_json(c.rope);
    j["cache_bytes_per_token"] = 2 * c.layers * c.kv_width() * 2;
  } else {
    j["cannot_run"] = checkpoint.status().message();
  }
  j["tensors"] = std::move(types);
  j["tokenizer"] = text_json(path);
  if (!checkpoint.ok()) return j;
  j["weights_digest"] =
      cached_weights_digest(checkpoint->tensors(), checkpoint->files(), cache / "digests").hex();
  ASSIGN_OR_RETURN(const Digest projection, projection_digest(*checkpoint));
  j["projection_digest"] = projection.hex();
  return j;
}

Result<Json> describe_safetensors(const stdfs::path& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  ASSIGN_OR_RETURN(const Safetensors st, Safetensors::parse(file.bytes(), path.string()));
  const auto format = st.metadata().find("format");
  Json j = {{"what", "safetensors file"}, {"file_bytes", file.bytes().size()}};
  if (format != st.metadata().end() && format->second == kProjectionPackFormat) {
    j["what"] = "projection pack";
    const auto pack = load_projection_pack(file.bytes(), "pack");
    if (pack.ok()) {
      const ModelConfig& c = pack->config;
      j["digest"] = pack->digest.hex();
      j["layers"] = c.layers;
      j["width"] = c.width;
      j["kv_heads"] = c.kv_heads;
      j["head_dim"] = c.head_dim;
      j["rope"] = rope_json(c.rope);
    } else {
      j["damaged"] = pack.status().message();
    }
  }
  j["tensors"] = tensor_types_json(st.tensors().all());
  return j;
}

}  // namespace isthmus
