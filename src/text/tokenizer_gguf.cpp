// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_gguf.h"

#include <array>

namespace isthmus {
namespace {

enum GgufTokenType : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

Status unsupported(const std::string& what) {
  return {Code::kUnsupported, "tokenizer_gguf: " + what};
}

// What a pre-tokenizer name stands for. NFC and ignore_merges are not in the metadata: they follow from the
// family.
struct PreKind {
  std::string_view name;
  SplitRule rule;
  bool digits_alone;  // kDigits runs first
  bool nfc;
  bool ignore_merges;
  bool add_bos;  // when the file does not say
};
constexpr std::array<PreKind, 7> kPreKinds = {{
    {"gpt-2", SplitRule::kGpt2, false, false, false, false},
    {"smollm", SplitRule::kGpt2, true, false, false, false},
    {"qwen2", SplitRule::kQwen2, false, true, false, false},
    {"deepseek-r1-qwen", SplitRule::kQwen2, false, true, false, false},
    {"llama-bpe", SplitRule::kLlama3, false, false, true, true},
    {"llama3", SplitRule::kLlama3, false, false, true, true},
    {"llama-v3", SplitRule::kLlama3, false, false, true, true},
}};

Result<PreKind> pre_kind(const GgufFile& file) {
  ASSIGN_OR_RETURN(const std::string_view model, file.get_string("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return unsupported("tokenizer.ggml.model: expected 'gpt2' (byte-level BPE), got '" + std::string(model) +
                       "'" + (model == "llama" ? ", a SentencePiece vocabulary" : ""));
  }
  ASSIGN_OR_RETURN(const std::string_view pre, file.get_string("tokenizer.ggml.pre"));
  for (const PreKind& kind : kPreKinds) {
    if (kind.name == pre) return kind;
  }
  std::string known;
  for (const PreKind& kind : kPreKinds) known += (known.empty() ? "" : ", ") + std::string(kind.name);
  return unsupported("tokenizer.ggml.pre: expected one of " + known + ", got '" + std::string(pre) + "'");
}

Status read_tokens(const GgufFile& file, TokenizerSpec& spec) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens,
                   file.get_string_array("tokenizer.ggml.tokens"));
  spec.tokens.assign(tokens.begin(), tokens.end());
  if (!file.contains("tokenizer.ggml.token_type")) return {};
  ASSIGN_OR_RETURN(const std::vector<int32_t> types, file.get_i32_array("tokenizer.ggml.token_type"));
  if (types.size() != tokens.size()) {
    return {Code::kCorrupt, "tokenizer_gguf: " + std::to_string(types.size()) + " token types for " +
                                std::to_string(tokens.size()) + " tokens"};
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    switch (types[i]) {
      case kNormal:
        break;
      case kUnknown:
      case kControl:
        spec.added.push_back({.id = id, .special = true});
        break;
      case kUserDefined:
        spec.added.push_back({.id = id});
        break;
      case kUnused:
        spec.tokens[i].clear();
        break;
      default:
        return unsupported("token " + std::to_string(i) + " has type " + std::to_string(types[i]));
    }
  }
  // A token without a spelling cannot be found in text.
  std::erase_if(spec.added,
                [&](const AddedToken& t) { return spec.tokens[static_cast<size_t>(t.id)].empty(); });
  return {};
}

Result<TokenId> find_id(const GgufFile& file, std::string_view key, size_t vocab) {
  ASSIGN_OR_RETURN(const std::optional<uint32_t> id, file.find_u32(key));
  if (!id) return TokenId{-1};
  if (*id >= vocab) {
    return Status(Code::kCorrupt, "tokenizer_gguf: " + std::string(key) + " is " + std::to_string(*id) +
                                      ", vocabulary has " + std::to_string(vocab));
  }
  return static_cast<TokenId>(*id);
}

Status refuse_if_set(const GgufFile& file, std::string_view key) {
  ASSIGN_OR_RETURN(const std::optional<bool> value, file.find_bool(key));
  return value.value_or(false) ? unsupported(std::string(key) + ": expected false, got true") : Status();
}

}  // namespace

Result<TokenizerSpec> tokenizer_spec_from_gguf(const GgufFile& file) {
  TokenizerSpec spec;
  ASSIGN_OR_RETURN(const PreKind kind, pre_kind(file));
  TRY(refuse_if_set(file, "tokenizer.ggml.add_eos_token"));
  TRY(refuse_if_set(file, "tokenizer.ggml.add_space_prefix"));
  TRY(read_tokens(file, spec));
  ASSIGN_OR_RETURN(const std::vector<std::string_view> merges,
                   file.get_string_array("tokenizer.ggml.merges"));
  spec.merges.assign(merges.begin(), merges.end());
  if (kind.digits_alone) spec.split_rules.push_back(SplitRule::kDigits);
  spec.split_rules.push_back(kind.rule);
  spec.nfc = kind.nfc;
  spec.ignore_merges = kind.ignore_merges;

  ASSIGN_OR_RETURN(spec.bos_id, find_id(file, "tokenizer.ggml.bos_token_id", spec.tokens.size()));
  ASSIGN_OR_RETURN(const std::optional<bool> add_bos, file.find_bool("tokenizer.ggml.add_bos_token"));
  spec.add_bos = add_bos.value_or(kind.add_bos && spec.bos_id >= 0);
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    ASSIGN_OR_RETURN(const TokenId id, find_id(file, key, spec.tokens.size()));
    if (id >= 0) spec.end_ids.push_back(id);
  }
  add_known_end_tokens(spec);
  return spec;
}

}  // namespace isthmus
