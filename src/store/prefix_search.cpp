// SPDX-License-Identifier: Apache-2.0
#include "store/prefix_search.h"

#include <algorithm>

namespace isthmus {
namespace {

struct Tail {
  int64_t tokens = 0;
  BlockKey key;
  Source source;
};

class Search {
 public:
  Search(const BlockTable& table, const PlaneLayout& layout, const PrefixQuery& query)
      : table_(table), query_(query), block_tokens_(layout.block_tokens), sliceable_(layout.sliceable()) {
    limit_ = std::clamp<int64_t>(query.limit, 0, static_cast<int64_t>(query.ids.size()));
  }

  // Keys of the whole blocks of `source` that follow `parent`, which ends at token `first`.
  std::vector<BlockKey> walk(BlockKey parent, int64_t first, const Source& source) const {
    std::vector<BlockKey> keys;
    for (int64_t a = first; a + block_tokens_ <= limit_; a += block_tokens_) {
      const BlockKey key = block_key(parent, source, ids(a, a + block_tokens_));
      if (!usable(key, a)) break;
      keys.push_back(key);
      parent = key;
    }
    return keys;
  }

  // The child of `parent` that shares most tokens with the rest of the prompt; of equals, the one of the
  // most wanted source.
  Tail tail(const BlockKey& parent, int64_t first, std::span<const Source> sources) const {
    Tail best;
    size_t best_rank = sources.size();
    const std::span<const TokenId> rest = ids(first, limit_);
    if (rest.empty()) return best;
    for (const BlockKey& key : table_.children(parent)) {
      const BlockInfo& info = table_.find(key)->info;
      const auto rank =
          static_cast<size_t>(std::find(sources.begin(), sources.end(), info.source) - sources.begin());
      if (rank == sources.size() || !usable(key, first)) continue;
      const int64_t tokens = shared_tokens(info.ids, rest);
      if (tokens > best.tokens || (tokens > 0 && tokens == best.tokens && rank < best_rank)) {
        best = {tokens, key, info.source};
        best_rank = rank;
      }
    }
    return best;
  }

  int64_t block_tokens() const { return block_tokens_; }

 private:
  std::span<const TokenId> ids(int64_t a, int64_t b) const {
    return query_.ids.subspan(static_cast<size_t>(a), static_cast<size_t>(b - a));
  }
  bool usable(const BlockKey& key, int64_t first) const {
    const BlockTable::Entry* entry = table_.find(key);
    if (entry == nullptr || entry->info.first_token != first) return false;
    return query_.excluded == nullptr || query_.excluded->count(key) == 0;
  }
  int64_t shared_tokens(std::span<const TokenId> have, std::span<const TokenId> want) const {
    const auto ends = std::mismatch(have.begin(), have.end(), want.begin(), want.end());
    if (!sliceable_ && ends.first != have.end()) return 0;  // snapshots hold at the block's end only
    return ends.first - have.begin();
  }

  const BlockTable& table_;
  const PrefixQuery& query_;
  const int64_t block_tokens_;
  const bool sliceable_;
  int64_t limit_ = 0;
};

// The longest chain that leaves the native one for `source` with at least one whole block; the latest switch
// of equals.
std::vector<BlockKey> longest_switch(const Search& search, const BlockKey& root,
                                     std::span<const BlockKey> native, const Source& source) {
  std::vector<BlockKey> best;
  for (size_t j = native.size() + 1; j-- > 0;) {
    const BlockKey& parent = j == 0 ? root : native[j - 1];
    const auto bridged = search.walk(parent, static_cast<int64_t>(j) * search.block_tokens(), source);
    if (bridged.empty() || j + bridged.size() <= best.size()) continue;
    best.assign(native.begin(), native.begin() + static_cast<std::ptrdiff_t>(j));
    best.insert(best.end(), bridged.begin(), bridged.end());
  }
  return best;
}

}  // namespace

PrefixPlan plan_prefix(const BlockTable& table, const PlaneLayout& layout, const BlockKey& root,
                       const PrefixQuery& query) {
  const Search search(table, layout, query);
  PrefixPlan plan;
  const auto consider = [&](std::vector<BlockKey> keys, const Source& source,
                            std::span<const Source> tail_sources) {
    const int64_t whole = static_cast<int64_t>(keys.size()) * search.block_tokens();
    const Tail tail = search.tail(keys.empty() ? root : keys.back(), whole, tail_sources);
    if (whole + tail.tokens <= plan.tokens) return;
    plan.tokens = whole + tail.tokens;
    plan.keys = std::move(keys);
    plan.source = tail.tokens > 0 ? tail.source : source;
    if (tail.tokens > 0) plan.keys.push_back(tail.key);
  };

  const Source native_source;
  std::vector<BlockKey> native;
  if (query.native) native = search.walk(root, 0, native_source);
  const BlockKey native_end = native.empty() ? root : native.back();
  const int64_t native_tokens = static_cast<int64_t>(native.size()) * search.block_tokens();
  std::vector<Source> any;
  if (query.native) any.push_back(native_source);
  any.insert(any.end(), query.bridged.begin(), query.bridged.end());
  consider(native, native_source, any);
  if (query.native) plan.ends.push_back({native_end, native_tokens, native_source});

  for (const Source& source : query.bridged) {
    plan.ends.push_back({native_end, native_tokens, source});
    if (!native.empty()) plan.ends.push_back({root, 0, source});
    std::vector<BlockKey> keys = longest_switch(search, root, native, source);
    if (keys.empty()) continue;
    plan.ends.push_back({keys.back(), static_cast<int64_t>(keys.size()) * search.block_tokens(), source});
    consider(std::move(keys), source, std::span(&source, 1));
  }
  return plan;
}

}  // namespace isthmus
