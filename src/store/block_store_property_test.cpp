// SPDX-License-Identifier: Apache-2.0
// Random prompts that share, diverge, switch source and come back after restarts, compared with a model that
// knows nothing of keys, indexes or order: a set of paths, searched exhaustively.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

using Step = std::pair<Source, Ids>;
using Path = std::vector<Step>;

class NaiveStore {
 public:
  void put(const Path& path) { paths_.insert(path); }

  // Tokens of the longest chain for `ids`, by trying every stored path.
  int64_t longest(const Ids& ids, const std::vector<Source>& bridged) const {
    int64_t best = 0;
    for (const Path& path : paths_) best = std::max(best, usable(path, ids, bridged));
    return best;
  }

 private:
  static int64_t usable(const Path& path, const Ids& ids, const std::vector<Source>& bridged) {
    Source current;
    int64_t tokens = 0;
    for (const auto& [source, block] : path) {
      const bool allowed = source.kind == SourceKind::kNative
                               ? current.kind == SourceKind::kNative
                               : (current.kind == SourceKind::kNative || current == source) &&
                                     std::find(bridged.begin(), bridged.end(), source) != bridged.end();
      if (!allowed) break;
      current = source;
      size_t same = 0;
      while (same < block.size() && static_cast<size_t>(tokens) + same < ids.size() &&
             block[same] == ids[static_cast<size_t>(tokens) + same]) {
        ++same;
      }
      tokens += static_cast<int64_t>(same);
      if (same < block.size()) break;
    }
    return tokens;
  }
  std::set<Path> paths_;
};

class Player {
 public:
  explicit Player(uint32_t seed) : random_(seed) {}

  const std::vector<Source> sources = {kNative, bridged(SourceKind::kProject, "A"),
                                       bridged(SourceKind::kProject, "B"), bridged(SourceKind::kKv, "A")};
  const std::vector<Source> accepted = {sources[1], sources[2]};

  // Two letters, so that prompts share and diverge at every place; sometimes a longer form of an old one.
  Ids prompt() {
    Ids ids;
    if (!old_.empty() && pick(2) == 0) {
      ids = old_[pick(old_.size())];
      ids.resize(pick(ids.size() + 1));
    }
    const size_t more = pick(14);
    for (size_t i = 0; i < more; ++i) ids.push_back(static_cast<TokenId>(pick(8) == 0));
    old_.push_back(ids);
    return ids;
  }
  size_t pick(size_t n) { return random_() % n; }

  // Puts as a stage does: after what is there for this source; the model learns what was put.
  void put(PrefixStore& store, NaiveStore& naive) {
    const Ids ids = prompt();
    const Source source = sources[pick(sources.size())];
    Path path;
    const CachedPrefix warm = checked_prefix(store, ids, static_cast<int64_t>(ids.size()), &source);
    for (const BlockPtr& b : warm.blocks) {
      if (b->last_token() <= warm.tokens && b->ids.size() == kP) path.emplace_back(b->source, b->ids);
    }
    ASSERT_TRUE(put_prompt(store, ids, source).ok());
    for (size_t a = path.size() * kP; a < ids.size(); a += kP) {
      path.emplace_back(source, Ids(ids.begin() + static_cast<int64_t>(a),
                                    ids.begin() + static_cast<int64_t>(std::min(a + kP, ids.size()))));
      naive.put(path);
    }
  }

  void compare(PrefixStore& store, const NaiveStore& naive) {
    const Ids ids = prompt();
    const auto limit = static_cast<int64_t>(pick(ids.size() + 1));
    const Ids cut(ids.begin(), ids.begin() + limit);
    EXPECT_EQ(checked_prefix(store, ids, limit).tokens, naive.longest(cut, accepted));
    EXPECT_EQ(store.cached_tokens(ids, limit, nullptr), naive.longest(cut, accepted));
    for (const Source& only : sources) {
      EXPECT_EQ(checked_prefix(store, ids, limit, &only).tokens, naive.longest(cut, {only}));
    }
  }

 private:
  std::mt19937 random_;
  std::vector<Ids> old_;
};

TEST(BlockStoreProperty, MemoryEqualsTheNaiveModel) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto store = open_store(options());
    NaiveStore naive;
    Player player(seed);
    for (int i = 0; i < 60; ++i) {
      player.put(*store, naive);
      player.compare(*store, naive);
    }
    ASSERT_FALSE(::testing::Test::HasFailure());
  }
}

TEST(BlockStoreProperty, DiskEqualsTheNaiveModelAcrossRestarts) {
  const TempDir dir;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = 500;  // most of it is read back
  NaiveStore naive;
  Player player(7);
  for (int restart = 0; restart < 6; ++restart) {
    const auto store = open_store(o);
    for (int i = 0; i < 10; ++i) {
      player.compare(*store, naive);
      player.put(*store, naive);
    }
    store->flush();
    player.compare(*store, naive);
    EXPECT_EQ(store->stats().quarantined, 0u);
  }
}

TEST(BlockStoreProperty, EvictionForgetsButNeverLies) {
  const TempDir dir;
  for (const bool disk : {false, true}) {
    for (uint32_t seed = 0; seed < 10; ++seed) {
      BlockStoreOptions o = options(disk ? dir.path() : std::filesystem::path());
      o.ram_bytes = 600;
      o.disk_quota_bytes = 8000;
      const auto store = open_store(o);
      Player player(seed);
      int64_t reused = 0;
      for (int i = 0; i < 40; ++i) {
        const Ids ids = player.prompt();
        const Source source = player.sources[player.pick(player.sources.size())];
        const Status put = put_prompt(*store, ids, source);
        EXPECT_TRUE(put.ok() || put.code() == Code::kResourceExhausted) << put.to_string();
        reused += tokens_of(*store, player.prompt());
        EXPECT_LE(store->stats().ram_bytes, o.ram_bytes + (disk ? o.write_queue_bytes : 0));
      }
      store->flush();
      EXPECT_GT(reused, 0);
      EXPECT_LE(store->stats().disk_bytes, o.disk_quota_bytes);
      EXPECT_LE(store->stats().ram_bytes, o.ram_bytes);
      EXPECT_GT(store->stats().evicted_ram, 0u);
    }
  }
}

}  // namespace
}  // namespace isthmus
