// SPDX-License-Identifier: Apache-2.0
// TokenizerSpec: everything that decides how text becomes ids, as plain values, whatever file it came from.
// Made by tokenizer_gguf.h, tokenizer_json.h or a test; consumed by Tokenizer::create, which checks it. No
// behaviour.
#pragma once

#include <string>
#include <vector>

#include "base/token.h"
#include "text/added_tokens.h"
#include "text/pre_tokenizer.h"

namespace isthmus {

struct TokenizerSpec {
  // [V] by id. Vocabulary entries are spelled in the byte alphabet (byte_alphabet.h), added tokens literally.
  // An empty spelling is an id that no text can give (a hole or padding).
  std::vector<std::string> tokens;
  std::vector<AddedToken> added;       // any order
  std::vector<std::string> merges;     // "left right" in the byte alphabet, by rank
  std::vector<SplitRule> split_rules;  // applied in this order
  bool nfc = false;                    // normalize text before it is cut
  bool ignore_merges = false;    // a piece that is a vocabulary entry is that token, whatever the merges say
  bool add_bos = false;          // a sequence starts with bos_id
  TokenId bos_id = -1;           // -1: none
  TokenId unknown_id = -1;       // for bytes without a token; -1: such bytes are dropped
  std::vector<TokenId> end_ids;  // generation stops at any of them
};

// Adds to end_ids the control tokens that published chat models end a turn or a text with (<|im_end|>,
// <|eot_id|>,
// <|endoftext|> ...): model files often name only one of several. Also sorts and deduplicates end_ids.
void add_known_end_tokens(TokenizerSpec& spec);

}  // namespace isthmus
