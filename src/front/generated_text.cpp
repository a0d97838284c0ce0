// SPDX-License-Identifier: Apache-2.0
#include "front/generated_text.h"

#include <algorithm>

namespace isthmus {
namespace {

int64_t count_characters(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

TextPiece GeneratedText::feed(const TokenEvent& event) {
  ++tokens_;
  if (keep_scores_) waiting_.push_back({{event, decoded_characters_}, decoded_bytes_});
  const std::string text = detokenizer_.feed(event.id);
  decoded_bytes_ += text.size();
  decoded_characters_ += count_characters(text);
  return release(matcher_.feed(text), false);
}

TextPiece GeneratedText::flush() {
  std::string text = matcher_.feed(detokenizer_.flush());
  text += matcher_.flush();
  return release(std::move(text), true);
}

TextPiece GeneratedText::release(std::string text, bool at_end) {
  TextPiece piece;
  released_bytes_ += text.size();
  piece.text = std::move(text);
  // A token whose text began in what was released belongs to it; the tokens of a stop string never do.
  const bool all = at_end && !matcher_.stopped();
  while (!waiting_.empty() && (all || waiting_.front().start_bytes < released_bytes_)) {
    piece.tokens.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  return piece;
}

}  // namespace isthmus
