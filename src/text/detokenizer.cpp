// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include "text/utf8.h"

namespace isthmus {

std::string Detokenizer::feed(TokenId id) {
  std::string out;
  if (skip_special_ && tokenizer_.is_special(id)) return out;
  pending_.append(tokenizer_.token_bytes(id));
  const size_t left = utf8_append_lossy(pending_, out);
  pending_.erase(0, pending_.size() - left);
  return out;
}

std::string Detokenizer::flush() {
  std::string out = utf8_lossy(pending_);
  pending_.clear();
  return out;
}

}  // namespace isthmus
