// SPDX-License-Identifier: Apache-2.0
// Watches streamed text for stop strings. Text that could still become one is held back, so no part of the
// stop string that ends the text is ever released; a false start is released unchanged. The outcome does not
// depend on how the text is cut into feeds. One object per sequence, one thread. Compares bytes; fed whole
// scalars (Detokenizer) it releases whole scalars.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isthmus {

class StopMatcher {
 public:
  // Empty stop strings are ignored; without any, text passes straight through.
  explicit StopMatcher(std::vector<std::string> stops);

  // Text now safe to send. Of several stop strings the one completed first ends the text (of those completed
  // at the same byte the longest); what precedes it is released and everything behind it dropped, now and
  // later.
  std::string feed(std::string_view text);

  // The text has ended by itself: what was held back and never became a stop string. Empty after a stop.
  std::string flush();

  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string that ended the text, else empty

 private:
  std::vector<std::string> stops_;
  std::string held_;  // shorter than the longest stop string after each feed
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace isthmus
