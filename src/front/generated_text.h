// SPDX-License-Identifier: Apache-2.0
// The text of one reply as its tokens come: whole characters only, nothing of a stop string, and each token's
// probabilities together with the text that it began. One object per reply, one thread; borrows the
// tokenizer. Knows no JSON.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "flow/engine.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace isthmus {

struct ScoredToken {
  TokenEvent event;
  int64_t text_offset = 0;  // characters of the reply before this token
};

struct TextPiece {
  std::string text;                 // may be empty while something is held back
  std::vector<ScoredToken> tokens;  // only when scores are kept
};

class GeneratedText {
 public:
  GeneratedText(const Tokenizer& tokenizer, std::vector<std::string> stops, bool keep_scores)
      : detokenizer_(tokenizer, true), matcher_(std::move(stops)), keep_scores_(keep_scores) {}

  TextPiece feed(const TokenEvent& event);
  // At the end: what was held back. An incomplete character gives one U+FFFD.
  TextPiece flush();
  bool stopped() const { return matcher_.stopped(); }
  int64_t tokens() const { return tokens_; }  // fed so far

 private:
  struct Waiting {
    ScoredToken token;
    size_t start_bytes;  // of all text before this token
  };
  TextPiece release(std::string text, bool at_end);

  Detokenizer detokenizer_;
  StopMatcher matcher_;
  bool keep_scores_;
  int64_t tokens_ = 0;
  size_t decoded_bytes_ = 0;
  int64_t decoded_characters_ = 0;
  size_t released_bytes_ = 0;
  std::deque<Waiting> waiting_;
};

}  // namespace isthmus
