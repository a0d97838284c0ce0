// SPDX-License-Identifier: Apache-2.0
#include "prefill/prompt_cache.h"

#include <algorithm>
#include <utility>

namespace isthmus {
namespace {

int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

PromptCache::Hit PromptCache::longest_prefix(std::span<const TokenId> ids, int64_t limit) {
  auto best = entries_.end();
  int64_t longest = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const int64_t usable = std::min(common_prefix(ids, it->ids), limit) / kPageTokens * kPageTokens;
    if (usable > longest) {
      longest = usable;
      best = it;
    }
  }
  if (best == entries_.end()) return {};
  entries_.splice(entries_.begin(), entries_, best);
  return {&best->rows, longest};
}

void PromptCache::insert(std::vector<TokenId> ids, Sequence rows) {
  const auto is_prefix = [](std::span<const TokenId> a, std::span<const TokenId> b) {
    return common_prefix(a, b) == static_cast<int64_t>(a.size());
  };
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (is_prefix(ids, it->ids)) return entries_.splice(entries_.begin(), entries_, it);
    it = is_prefix(it->ids, ids) ? entries_.erase(it) : std::next(it);
  }
  entries_.push_front(Entry{std::move(ids), std::move(rows)});
}

bool PromptCache::evict_oldest() {
  if (entries_.empty()) return false;
  entries_.pop_back();
  return true;
}

}  // namespace isthmus
