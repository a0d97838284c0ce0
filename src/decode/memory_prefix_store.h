// SPDX-License-Identifier: Apache-2.0
// Tests only: a prefix store without tiers, limits or checks. Blocks of one chain a token list, found by
// comparing ids.
#pragma once

#include <algorithm>
#include <map>
#include <memory>

#include "base/sync.h"
#include "flow/prefix_store.h"

namespace isthmus {

class MemoryPrefixStore final : public PrefixStore {
 public:
  explicit MemoryPrefixStore(PlaneLayout layout) : layout_(std::move(layout)), identity_(sha256("test")) {}

  const PlaneLayout& layout() const override { return layout_; }
  const Digest& identity() const override { return identity_; }
  int64_t cached_tokens(std::span<const TokenId> ids, int64_t limit, const Source* only) override {
    return longest_prefix(ids, limit, only).tokens;
  }
  CachedPrefix longest_prefix(std::span<const TokenId> ids, int64_t limit, const Source*) override {
    MutexLock lock(mutex_);
    CachedPrefix p;
    BlockKey parent = root_key(identity_);
    while (true) {
      BlockPtr best;
      int64_t best_tokens = 0;
      for (const auto& [key, block] : blocks_) {
        if (block->parent != parent) continue;
        const auto rest = ids.subspan(static_cast<size_t>(block->first_token));
        const size_t n = std::min(rest.size(), block->ids.size());
        const auto same = std::mismatch(block->ids.begin(),
                                        block->ids.begin() + static_cast<std::ptrdiff_t>(n), rest.begin());
        const int64_t tokens = std::min<int64_t>(same.first - block->ids.begin(), limit - block->first_token);
        if (tokens > best_tokens) {
          best = block;
          best_tokens = tokens;
        }
      }
      if (best == nullptr) return p;
      p.tokens = best->first_token + best_tokens;
      p.source = best->source;
      p.blocks.push_back(best);
      if (best_tokens < layout_.block_tokens) return p;
      parent = best->key;
    }
  }
  int64_t storable_tokens(int64_t tokens) const override { return tokens; }
  std::unique_ptr<RowSink> open_chain(ChainSpec spec) override {
    return std::make_unique<Sink>(*this, std::move(spec));
  }

  size_t size() const {
    MutexLock lock(mutex_);
    return blocks_.size();
  }
  // Replaces a block's bytes behind everybody's back.
  void corrupt_all() {
    MutexLock lock(mutex_);
    for (auto& [key, block] : blocks_) {
      auto changed = std::make_shared<Block>(*block);
      changed->planes[0] ^= std::byte{0x10};
      block = changed;
    }
  }

 private:
  class Sink final : public RowSink {
   public:
    Sink(MemoryPrefixStore& store, ChainSpec spec) : store_(store), spec_(std::move(spec)) {}
    Status put(int64_t first, int64_t last, Bytes planes) override {
      auto block = std::make_shared<Block>();
      block->parent = spec_.parent;
      block->first_token = first;
      block->ids.assign(spec_.ids.begin() + first, spec_.ids.begin() + last);
      block->source = spec_.source;
      block->planes = std::move(planes);
      block->key = block_key(block->parent, block->source, block->ids);
      spec_.parent = block->key;
      MutexLock lock(store_.mutex_);
      store_.blocks_[block->key] = block;
      return {};
    }
    Status seal(int64_t) override { return {}; }
    void abort(const Status&) override {}

   private:
    MemoryPrefixStore& store_;
    ChainSpec spec_;
  };

  const PlaneLayout layout_;
  const Digest identity_;
  mutable Mutex mutex_;
  std::map<BlockKey, BlockPtr> blocks_ GUARDED_BY(mutex_);
};

}  // namespace isthmus
