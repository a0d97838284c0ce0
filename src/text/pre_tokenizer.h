// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces inside which byte-level BPE may merge. Immutable after create(); any thread.
// The rules are the published ones of SmolLM2, GPT-2, Qwen2/2.5/3 and Llama 3; a rule is named, never given
// as a regex. Not a normalizer, and it knows nothing of added tokens: tokenizer.cpp takes those out first.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/regex.h"

namespace isthmus {

// Applied one after the other, each inside the pieces of the one before it.
enum class SplitRule : uint8_t {
  kDigits = 0,     // every \p{N} scalar alone
  kDigitRuns = 1,  // every run of \p{N} alone
  kGpt2 = 2,       // contractions, letters, numbers, other, whitespace; each with at most one leading space
  kQwen2 = 3,      // any-case contractions, single numbers, line ends kept with what precedes them
  kLlama3 = 4,     // as kQwen2 with numbers in groups of up to three
};

// The rule whose published regex (as in tokenizer.json) is `regex`; nothing when we do not know it.
std::optional<SplitRule> split_rule_of_regex(std::string_view regex);

class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const std::vector<SplitRule>& rules);

  // Appends pieces of `text` (borrowed, not empty, concatenating to it). Ill-formed UTF-8 is allowed: each
  // maximal run of ill-formed bytes becomes one piece, and the rules see the text on either side as separate
  // texts. kResourceExhausted from the match limit.
  Status split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  std::vector<Regex> stages_;
};

}  // namespace isthmus
