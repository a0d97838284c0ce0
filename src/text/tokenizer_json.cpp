// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer_json.h"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/json.h"

namespace isthmus {
namespace {

constexpr std::string_view kWhere = "tokenizer.json";

// Ids may skip this many numbers beyond the count of tokens; more is a mistake that would cost memory.
constexpr size_t kMaxHoles = 1 << 16;

Status unsupported(const std::string& what) {
  return {Code::kUnsupported, std::string(kWhere) + ": " + what};
}
Status corrupt(const std::string& what) {
  return {Code::kCorrupt, std::string(kWhere) + ": " + what};
}

std::string shown(const Json& j) {
  return dump_ascii(j).substr(0, 120);
}

// Missing and null are the same.
const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(std::string(key));
  return it == object.end() ? kNull : *it;
}

Status check_keys(const Json& object, std::initializer_list<std::string_view> known, std::string_view what) {
  if (!object.is_object())
    return unsupported(std::string(what) + ": expected an object, got " + shown(object));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return unsupported(std::string(what) + ": field '" + key.substr(0, 64) + "' is not known");
    }
  }
  return {};
}

Result<bool> flag(const Json& object, std::string_view key, bool missing = false) {
  ASSIGN_OR_RETURN(const std::optional<bool> value, find_bool(object, key, kWhere));
  return value.value_or(missing);
}

// The flag must be `expected` (or missing).
Status require_flag(const Json& object, std::string_view key, bool expected) {
  ASSIGN_OR_RETURN(const bool value, flag(object, key, expected));
  if (value == expected) return {};
  return unsupported("'" + std::string(key) + "': expected " + (expected ? "true" : "false") +
                     ", got the opposite");
}

Result<std::string> type_of(const Json& object) {
  return get_string(object, "type", kWhere);
}

// Calls `one` for the object, or for each element of a Sequence (its list is called `list`).
template <typename Visit>
Status for_each_step(const Json& object, std::string_view list, const Visit& one) {
  if (object.is_null()) return {};
  ASSIGN_OR_RETURN(const std::string type, type_of(object));
  if (type != "Sequence") return one(object, type);
  TRY(check_keys(object, {"type", list}, "Sequence"));
  const Json& steps = member(object, list);
  if (!steps.is_array())
    return unsupported("Sequence: expected a list '" + std::string(list) + "', got " + shown(steps));
  for (const Json& step : steps) {
    ASSIGN_OR_RETURN(const std::string step_type, type_of(step));
    TRY(one(step, step_type));
  }
  return {};
}

Status read_normalizer(const Json& normalizer, TokenizerSpec& spec) {
  return for_each_step(normalizer, "normalizers", [&](const Json& step, const std::string& type) -> Status {
    if (type != "NFC") return unsupported("normalizer: expected NFC, got " + shown(step));
    TRY(check_keys(step, {"type"}, "normalizer NFC"));
    spec.nfc = true;
    return {};
  });
}

Status read_split(const Json& step, TokenizerSpec& spec) {
  TRY(check_keys(step, {"type", "pattern", "behavior", "invert"}, "pre_tokenizer Split"));
  TRY(require_flag(step, "invert", false));
  const Json& behavior = member(step, "behavior");
  if (behavior != "Isolated")
    return unsupported("pre_tokenizer Split: expected behavior Isolated, got " + shown(behavior));
  const Json& pattern = member(step, "pattern");
  TRY(check_keys(pattern, {"Regex"}, "pre_tokenizer Split pattern"));
  ASSIGN_OR_RETURN(const std::string regex, get_string(pattern, "Regex", kWhere));
  const std::optional<SplitRule> rule = split_rule_of_regex(regex);
  if (!rule)
    return unsupported("pre_tokenizer Split: regex " + shown(regex) +
                       " is not one of GPT-2, Qwen2 or Llama 3");
  spec.split_rules.push_back(*rule);
  return {};
}

Status read_pre_tokenizer(const Json& pre_tokenizer, TokenizerSpec& spec) {
  bool byte_level = false;
  const auto read_step = [&](const Json& step, const std::string& type) -> Status {
    if (byte_level)
      return unsupported("pre_tokenizer: ByteLevel must come last, got " + shown(step) + " after it");
    if (type == "Split") return read_split(step, spec);
    if (type == "Digits") {
      TRY(check_keys(step, {"type", "individual_digits"}, "pre_tokenizer Digits"));
      ASSIGN_OR_RETURN(const bool alone, flag(step, "individual_digits"));
      spec.split_rules.push_back(alone ? SplitRule::kDigits : SplitRule::kDigitRuns);
      return {};
    }
    if (type != "ByteLevel")
      return unsupported("pre_tokenizer: expected ByteLevel, Digits or Split, got " + shown(step));
    TRY(check_keys(step, {"type", "add_prefix_space", "trim_offsets", "use_regex"},
                   "pre_tokenizer ByteLevel"));
    ASSIGN_OR_RETURN(const bool prefix, flag(step, "add_prefix_space", true));
    if (prefix) return unsupported("pre_tokenizer ByteLevel: expected add_prefix_space false, got true");
    ASSIGN_OR_RETURN(const bool use_regex, flag(step, "use_regex", true));
    if (use_regex) spec.split_rules.push_back(SplitRule::kGpt2);
    byte_level = true;
    return {};
  };
  TRY(for_each_step(pre_tokenizer, "pretokenizers", read_step));
  if (!byte_level) return unsupported("pre_tokenizer: expected ByteLevel, got " + shown(pre_tokenizer));
  return {};
}

// The template of a single text must be [A] or [BOS, A].
Status read_template(const Json& processor, TokenizerSpec& spec) {
  TRY(check_keys(processor, {"type", "single", "pair", "special_tokens"},
                 "post_processor TemplateProcessing"));
  const Json& single = member(processor, "single");
  const auto is_text = [](const Json& piece) { return !member(piece, "Sequence").is_null(); };
  const bool plain = single.is_array() && single.size() == 1 && is_text(single[0]);
  const bool with_bos = single.is_array() && single.size() == 2 && is_text(single[1]) && !is_text(single[0]);
  if (plain) return {};
  if (!with_bos)
    return unsupported("post_processor: expected the text with at most one token before it, got " +
                       shown(single));
  ASSIGN_OR_RETURN(const std::string name, get_string(member(single[0], "SpecialToken"), "id", kWhere));
  const Json& ids = member(member(member(processor, "special_tokens"), name), "ids");
  if (!ids.is_array() || ids.size() != 1 || !ids[0].is_number_unsigned() ||
      ids[0].get<uint64_t>() >= spec.tokens.size()) {
    return corrupt("post_processor: expected one id below " + std::to_string(spec.tokens.size()) + " for '" +
                   name + "', got " + shown(ids));
  }
  spec.bos_id = static_cast<TokenId>(ids[0].get<uint64_t>());
  spec.add_bos = true;
  return {};
}

Status read_post_processor(const Json& processor, TokenizerSpec& spec) {
  return for_each_step(processor, "processors", [&](const Json& step, const std::string& type) -> Status {
    if (type == "TemplateProcessing") return read_template(step, spec);
    if (type == "ByteLevel") return {};  // moves offsets only
    return unsupported("post_processor: expected ByteLevel or TemplateProcessing, got " + shown(step));
  });
}

Status read_decoder(const Json& decoder) {
  return for_each_step(decoder, "decoders", [](const Json& step, const std::string& type) -> Status {
    return type == "ByteLevel" ? Status() : unsupported("decoder: expected ByteLevel, got " + shown(step));
  });
}

Status place_token(uint64_t id, const std::string& spelling, size_t limit, TokenizerSpec& spec) {
  if (id >= limit)
    return corrupt("token '" + spelling.substr(0, 64) + "' has id " + std::to_string(id) +
                   ", expected below " + std::to_string(limit));
  if (id >= spec.tokens.size()) spec.tokens.resize(id + 1);
  std::string& slot = spec.tokens[id];
  if (!slot.empty() && slot != spelling) {
    return corrupt("id " + std::to_string(id) + " is both '" + slot.substr(0, 64) + "' and '" +
                   spelling.substr(0, 64) + "'");
  }
  slot = spelling;
  return {};
}

Status read_vocabulary(const SortedJson& vocab, size_t added, TokenizerSpec& spec) {
  if (!vocab.is_object()) return unsupported("model: expected an object 'vocab'");
  const size_t limit = vocab.size() + added + kMaxHoles;
  for (const auto& [spelling, id] : vocab.items()) {
    if (!id.is_number_unsigned())
      return corrupt("vocab: expected an id for '" + spelling.substr(0, 64) + "'");
    TRY(place_token(id.get<uint64_t>(), spelling, limit, spec));
  }
  return {};
}

Status read_added_tokens(const Json& list, TokenizerSpec& spec) {
  if (list.is_null()) return {};
  if (!list.is_array()) return unsupported("added_tokens: expected a list, got " + shown(list));
  const size_t limit = spec.tokens.size() + list.size() + kMaxHoles;
  for (const Json& entry : list) {
    TRY(check_keys(entry, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"},
                   "added_tokens"));
    ASSIGN_OR_RETURN(const int64_t id, get_int(entry, "id", kWhere));
    ASSIGN_OR_RETURN(const std::string content, get_string(entry, "content", kWhere));
    TRY(require_flag(entry, "single_word", false));
    if (id < 0 || content.empty())
      return corrupt("added_tokens: expected an id and a content, got " + shown(entry));
    TRY(place_token(static_cast<uint64_t>(id), content, limit, spec));
    AddedToken token{.id = static_cast<TokenId>(id)};
    ASSIGN_OR_RETURN(token.special, flag(entry, "special"));
    ASSIGN_OR_RETURN(token.normalized, flag(entry, "normalized", !token.special));
    ASSIGN_OR_RETURN(token.lstrip, flag(entry, "lstrip"));
    ASSIGN_OR_RETURN(token.rstrip, flag(entry, "rstrip"));
    spec.added.push_back(token);
  }
  return {};
}

// "left right" or ["left", "right"].
Status read_merges(const Json& merges, TokenizerSpec& spec) {
  if (!merges.is_array()) return unsupported("model: expected a list 'merges', got " + shown(merges));
  spec.merges.reserve(merges.size());
  for (const Json& merge : merges) {
    if (merge.is_string()) {
      spec.merges.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      return corrupt("merge " + std::to_string(spec.merges.size()) + ": expected two strings, got " +
                     shown(merge));
    }
  }
  return {};
}

Status require_empty(const Json& object, std::string_view key) {
  const Json& value = member(object, key);
  if (value.is_null() || value == "") return {};
  return unsupported("'" + std::string(key) + "': expected null, got " + shown(value));
}

Status read_model(const Json& model, TokenizerSpec& spec) {
  TRY(check_keys(model,
                 {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "merges"},
                 "model"));
  TRY(require_empty(model, "dropout"));
  TRY(require_empty(model, "continuing_subword_prefix"));
  TRY(require_empty(model, "end_of_word_suffix"));
  TRY(require_flag(model, "fuse_unk", false));
  TRY(require_flag(model, "byte_fallback", false));
  ASSIGN_OR_RETURN(spec.ignore_merges, flag(model, "ignore_merges"));
  return read_merges(member(model, "merges"), spec);
}

Result<TokenId> id_of(const std::string& spelling, const TokenizerSpec& spec, std::string_view what) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), spelling);
  if (it != spec.tokens.end()) return static_cast<TokenId>(it - spec.tokens.begin());
  return corrupt(std::string(what) + " '" + spelling.substr(0, 64) + "' is not in the vocabulary");
}

// Null, a string or an object with "content". -1: none.
Result<TokenId> named_token(const Json& object, std::string_view key, const TokenizerSpec& spec) {
  const Json& value = member(object, key);
  const Json& name = value.is_object() ? member(value, "content") : value;
  if (name.is_null() || name == "") return TokenId{-1};
  if (!name.is_string())
    return unsupported("'" + std::string(key) + "': expected a token, got " + shown(value));
  return id_of(name.get<std::string>(), spec, key);
}

Status read_config(std::string_view config_json, TokenizerSpec& spec) {
  if (config_json.empty()) return {};
  ASSIGN_OR_RETURN(const Json config, parse_json(config_json, "tokenizer_config.json"));
  ASSIGN_OR_RETURN(const TokenId bos, named_token(config, "bos_token", spec));
  ASSIGN_OR_RETURN(const TokenId eos, named_token(config, "eos_token", spec));
  if (bos >= 0) spec.bos_id = bos;
  if (eos >= 0) spec.end_ids.push_back(eos);
  ASSIGN_OR_RETURN(const bool add_eos, flag(config, "add_eos_token"));
  if (add_eos) return unsupported("tokenizer_config.json: expected add_eos_token false, got true");
  ASSIGN_OR_RETURN(spec.add_bos, flag(config, "add_bos_token", spec.add_bos));
  return {};
}

}  // namespace

Result<TokenizerSpec> tokenizer_spec_from_json(std::string_view tokenizer_json,
                                               std::string_view config_json) {
  ASSIGN_OR_RETURN(SortedJson all, parse_json_sorted(tokenizer_json, kWhere));
  if (!all.is_object() || !all.contains("model") || !all["model"].is_object())
    return unsupported("expected an object 'model'");
  SortedJson& big = all["model"];
  if (!big.contains("type"))
    big["type"] = big.contains("merges") ? "BPE" : "unknown";  // files older than the field
  if (big["type"] != "BPE") return unsupported("model: expected type BPE, got " + shown(Json(big["type"])));
  const SortedJson vocab = std::move(big["vocab"]);
  big.erase("vocab");
  const Json doc(all);

  TokenizerSpec spec;
  TRY(check_keys(doc,
                 {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                  "post_processor", "decoder", "model"},
                 "top level"));
  TRY(require_empty(doc, "truncation"));
  TRY(require_empty(doc, "padding"));
  TRY(read_vocabulary(vocab, member(doc, "added_tokens").size(), spec));
  TRY(read_added_tokens(member(doc, "added_tokens"), spec));
  TRY(read_model(member(doc, "model"), spec));
  ASSIGN_OR_RETURN(spec.unknown_id, named_token(member(doc, "model"), "unk_token", spec));
  TRY(read_normalizer(member(doc, "normalizer"), spec));
  TRY(read_pre_tokenizer(member(doc, "pre_tokenizer"), spec));
  TRY(read_post_processor(member(doc, "post_processor"), spec));
  TRY(read_decoder(member(doc, "decoder")));
  TRY(read_config(config_json, spec));
  add_known_end_tokens(spec);
  return spec;
}

}  // namespace isthmus
