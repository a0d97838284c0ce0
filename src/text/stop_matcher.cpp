// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <algorithm>

namespace isthmus {
namespace {

// Length of the longest proper prefix of `stop` that `text` ends with.
size_t pending_bytes(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopMatcher::feed(std::string_view text) {
  if (stopped_) return {};
  held_.append(text);
  size_t best_end = std::string::npos;
  const std::string* best = nullptr;
  size_t hold = 0;
  for (const std::string& stop : stops_) {
    if (const size_t at = held_.find(stop); at != std::string::npos) {
      const size_t end = at + stop.size();
      if (best == nullptr || end < best_end || (end == best_end && stop.size() > best->size())) {
        best_end = end;
        best = &stop;
      }
    } else {
      hold = std::max(hold, pending_bytes(held_, stop));
    }
  }
  std::string out;
  if (best != nullptr) {
    out = held_.substr(0, best_end - best->size());
    matched_ = *best;
    stopped_ = true;
    held_.clear();
    return out;
  }
  out = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return out;
}

std::string StopMatcher::flush() {
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace isthmus
