// SPDX-License-Identifier: Apache-2.0
// The prefill engine's own prefix cache: the sequences of recent prompts, least recently used out first. A
// new prompt shares the pages of the longest prefix it has in common with one of them. Engine thread only,
// as the pool. Not the block store: it holds rows computed with this engine's weights, keyed by tokens alone.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "base/token.h"
#include "model/kv_pool.h"

namespace isthmus {

class PromptCache {
 public:
  struct Hit {
    const Sequence* donor = nullptr;  // valid until insert or evict_oldest; null when tokens is 0
    int64_t tokens = 0;               // a multiple of kPageTokens, <= limit
  };
  // The sequence with the most leading tokens of `ids` becomes the most recent one.
  Hit longest_prefix(std::span<const TokenId> ids, int64_t limit);

  // rows: those of `ids`, all of them. A sequence that another one begins with is not kept twice.
  void insert(std::vector<TokenId> ids, Sequence rows);

  bool evict_oldest();  // false: empty
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::vector<TokenId> ids;
    Sequence rows;
  };
  std::list<Entry> entries_;  // most recent first
};

}  // namespace isthmus
