// SPDX-License-Identifier: Apache-2.0
// Finds added tokens (control tokens and other literal tokens) in text: leftmost, of several the longest.
// Owned by Tokenizer; immutable after the adds; any thread. Time is linear in the text times the longest
// common prefix of spellings.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token.h"

namespace isthmus {

// How an added token behaves in text.
struct AddedToken {
  TokenId id = -1;  // its spelling is the vocabulary's entry of this id, taken literally
  bool special =
      false;  // a control token: found only when the caller parses specials, left out by decode(skip_special)
  bool normalized = false;  // found after normalization instead of before it
  bool lstrip = false;      // swallows whitespace on its left
  bool rstrip = false;      // ... on its right
};

// A stretch of text: an added token (id >= 0) or text still to be encoded (id < 0).
struct TextSegment {
  std::string_view text;
  TokenId id = -1;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher();
  // `spelling` must not be empty and not have been added before (the later one is ignored).
  void add(std::string_view spelling, const AddedToken& token);

  // Appends the segments of `text` in order. When `parse_special` is false, special tokens are text.
  void split(std::string_view text, bool parse_special, std::vector<TextSegment>& out) const;

 private:
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    int32_t token = -1;  // index in tokens_
  };
  uint32_t child(uint32_t node, uint8_t byte) const;  // 0: none (the root is nobody's child)
  std::pair<int32_t, size_t> longest_match(std::string_view text) const;

  std::vector<Node> nodes_;
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_byte_{};  // some spelling begins with it
};

}  // namespace isthmus
