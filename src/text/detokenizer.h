// SPDX-License-Identifier: Apache-2.0
// Token ids to text, one at a time: what feed() returns is always well-formed UTF-8 and never splits a
// scalar. The returned parts joined are utf8_lossy(decode(all ids)). One object per sequence, one thread;
// borrows the Tokenizer, which must outlive it. Not for stop strings: see stop_matcher.h.
#pragma once

#include <string>

#include "base/token.h"
#include "text/tokenizer.h"

namespace isthmus {

class Detokenizer {
 public:
  Detokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that `id` completes; may be empty. Bytes that cannot become a scalar any more give U+FFFD each
  // (maximal subparts).
  std::string feed(TokenId id);

  // At the end of the sequence: bytes of an incomplete scalar, if any, give exactly one U+FFFD. The object
  // starts afresh.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  std::string pending_;  // < 4 bytes after each call: the beginning of a scalar
};

}  // namespace isthmus
