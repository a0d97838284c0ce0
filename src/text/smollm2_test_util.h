// SPDX-License-Identifier: Apache-2.0
// Tests and benchmarks only: the tokenizer of SmolLM2-135M-Instruct from the golden file, so that they need
// no model. Pure function; any thread.
#pragma once

#include <sstream>
#include <string>

#include "base/fs.h"
#include "base/test_data.h"
#include "text/tokenizer_spec.h"

namespace isthmus {

// The format is described in tests/golden/tokenizer/make_smollm2_vocabulary.py. Errors: those of the file,
// kCorrupt.
inline Result<TokenizerSpec> smollm2_spec() {
  ASSIGN_OR_RETURN(const std::string text,
                   read_text_file(test_data("tokenizer/smollm2_vocabulary.txt"), 4u << 20));
  std::istringstream in(text);
  std::string word;
  size_t n = 0;
  TokenizerSpec spec;
  const auto section = [&](std::string_view name) { return in >> word >> n && word == name; };
  const Status corrupt(Code::kCorrupt, "smollm2_vocabulary.txt: not the format of its script");
  if (!section("control")) return corrupt;
  for (size_t i = 0; i < n; ++i) {
    in >> word;
    spec.added.push_back({.id = static_cast<TokenId>(spec.tokens.size()), .special = true});
    spec.tokens.push_back(word);
  }
  if (!section("bytes")) return corrupt;
  for (size_t i = 0; i < n; ++i) {
    in >> word;
    spec.tokens.push_back(word);
  }
  if (!section("merges")) return corrupt;
  for (size_t i = 0; i < n; ++i) {
    size_t left = 0;
    size_t right = 0;
    if (!(in >> left >> right)) return corrupt;
    spec.merges.push_back(spec.tokens.at(left) + " " + spec.tokens.at(right));
    spec.tokens.push_back(spec.tokens.at(left) + spec.tokens.at(right));
  }
  spec.split_rules = {SplitRule::kDigits, SplitRule::kGpt2};
  spec.bos_id = 1;
  add_known_end_tokens(spec);
  return spec;
}

}  // namespace isthmus
