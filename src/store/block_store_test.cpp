// SPDX-License-Identifier: Apache-2.0
#include "store/block_store.h"

#include <gtest/gtest.h>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

const Source kProjectA = bridged(SourceKind::kProject, "A");
const Source kProjectB = bridged(SourceKind::kProject, "B");
const Source kKvA = bridged(SourceKind::kKv, "A");

TEST(BlockStore, CutsPrefixesAtAnyTokenOfASliceableLayout) {
  const auto store = open_store(options());
  const Ids ids = count_up(10);  // blocks [0, 4) [4, 8) and the tail [8, 10)
  ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
  for (int64_t limit = 0; limit <= 10; ++limit) {
    EXPECT_EQ(checked_prefix(*store, ids, limit).tokens, limit);
    EXPECT_EQ(store->cached_tokens(ids, limit, nullptr), limit);
  }
  for (size_t at = 0; at < ids.size(); ++at) {
    Ids other = ids;
    other[at] = 99;
    EXPECT_EQ(tokens_of(*store, other), static_cast<int64_t>(at)) << "diverges at " << at;
  }
  Ids longer = ids;
  longer.resize(30, 5);
  EXPECT_EQ(tokens_of(*store, longer), 10);
  EXPECT_EQ(store->cached_tokens(ids, -1, nullptr), 0);
  EXPECT_EQ(store->cached_tokens({}, 10, nullptr), 0);
}

TEST(BlockStore, TakesTheTailThatSharesMost) {
  const auto store = open_store(options());
  ASSERT_TRUE(put_prompt(*store, {0, 1, 2, 3, 4}, kNative).ok());
  ASSERT_TRUE(put_prompt(*store, {0, 1, 2, 3, 4, 5, 6}, kNative).ok());
  ASSERT_TRUE(put_prompt(*store, {0, 1, 2, 3, 4, 5, 9, 9}, kNative).ok());
  EXPECT_EQ(tokens_of(*store, {0, 1, 2, 3, 4, 5, 6, 7}), 7);
  EXPECT_EQ(tokens_of(*store, {0, 1, 2, 3, 4, 5, 9, 8}), 7);
  EXPECT_EQ(tokens_of(*store, {0, 1, 2, 3, 4, 8}), 5);
}

TEST(BlockStore, PutsAreCheckedAndCounted) {
  const auto store = open_store(options());
  const Ids ids = count_up(10);
  const auto chain = [&](int64_t first, BlockKey parent, Source source) {
    return store->open_chain({ids, first, source, parent, ""});
  };
  const BlockKey root = root_key(store->identity());
  const auto put = [&](RowSink& sink, int64_t a, int64_t b) {
    return sink.put(a, b, rows(ids, a, b, kNative));
  };

  EXPECT_EQ(chain(2, root, kNative)->put(2, 4, {}).code(), Code::kInvalidArgument);  // no boundary
  EXPECT_EQ(put(*chain(4, root, kNative), 4, 8).code(), Code::kInvalidArgument);     // parent ends elsewhere
  EXPECT_EQ(put(*chain(4, sha256("gone"), kNative), 4, 8).code(), Code::kNotFound);
  EXPECT_EQ(put(*chain(0, root, {SourceKind::kNative, sha256("A")}), 0, 4).code(), Code::kInvalidArgument);

  const auto sink = chain(0, root, kNative);
  EXPECT_EQ(put(*sink, 4, 8).code(), Code::kInvalidArgument);  // gap
  EXPECT_EQ(put(*sink, 0, 8).code(), Code::kInvalidArgument);  // two blocks
  EXPECT_EQ(put(*sink, 0, 0).code(), Code::kInvalidArgument);  // nothing
  EXPECT_EQ(sink->put(0, 4, Bytes(63)).code(), Code::kInvalidArgument);
  EXPECT_TRUE(put(*sink, 0, 4).ok());
  EXPECT_EQ(put(*sink, 0, 4).code(), Code::kInvalidArgument);  // again
  EXPECT_TRUE(put(*sink, 4, 6).ok());                          // a partial tail ends the sequence
  EXPECT_EQ(put(*sink, 6, 8).code(), Code::kInvalidArgument);
  EXPECT_EQ(sink->seal(8).code(), Code::kInvalidArgument);
  EXPECT_TRUE(sink->seal(6).ok());
  EXPECT_FALSE(sink->seal(6).ok());

  const auto again = chain(0, root, kNative);
  EXPECT_TRUE(put(*again, 0, 4).ok());
  again->abort(Status(Code::kUnavailable, "engine died"));
  EXPECT_EQ(put(*again, 4, 8).code(), Code::kCancelled);

  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.puts, 2u);
  EXPECT_EQ(stats.duplicates, 1u);
  EXPECT_EQ(stats.ram_blocks, 2u);
  EXPECT_EQ(tokens_of(*store, ids), 6);
}

TEST(BlockStore, SourcesNeverMix) {
  BlockStoreOptions o = options();
  o.accepted = {SourceKind::kNative, SourceKind::kProject};
  const auto store = open_store(o);
  const Ids ids = count_up(16);
  const Ids head(ids.begin(), ids.begin() + 8);
  ASSERT_TRUE(put_prompt(*store, Ids(ids.begin(), ids.begin() + 4), kNative).ok());
  ASSERT_TRUE(put_prompt(*store, ids, kKvA).ok());  // after the native block
  EXPECT_EQ(tokens_of(*store, ids), 4) << "kv is not accepted here";
  EXPECT_EQ(tokens_of(*store, ids, &kKvA), 16) << "but may be asked for";
  ASSERT_TRUE(put_prompt(*store, head, kProjectA).ok());
  EXPECT_EQ(tokens_of(*store, ids), 8);
  EXPECT_EQ(tokens_of(*store, ids, &kProjectA), 8);
  EXPECT_EQ(tokens_of(*store, ids, &kProjectB), 4) << "the native block, nothing of A's";
  EXPECT_EQ(tokens_of(*store, ids, &kNative), 4);
  ASSERT_TRUE(put_prompt(*store, ids, kProjectB).ok());
  const CachedPrefix found = checked_prefix(*store, ids, 16);
  EXPECT_EQ(found.tokens, 16);
  EXPECT_EQ(found.source, kProjectB);

  // A chain stays with the source it switched to.
  const CachedPrefix a = checked_prefix(*store, ids, 8, &kProjectA);
  const auto sink = store->open_chain({ids, 8, kNative, a.blocks.back()->key, ""});
  EXPECT_EQ(sink->put(8, 12, rows(ids, 8, 12, kNative)).code(), Code::kInvalidArgument);
}

TEST(BlockStore, PrefersNativeThenTheOrderOfAcceptedKinds) {
  BlockStoreOptions o = options();
  o.accepted = {SourceKind::kNative, SourceKind::kKv, SourceKind::kProject};
  const auto store = open_store(o);
  const Ids ids = count_up(8);
  ASSERT_TRUE(put_prompt(*store, ids, kProjectA).ok());
  EXPECT_EQ(checked_prefix(*store, ids, 8).source, kProjectA);
  ASSERT_TRUE(put_prompt(*store, ids, kKvA).ok());
  EXPECT_EQ(checked_prefix(*store, ids, 8).source, kKvA);
  ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
  EXPECT_EQ(checked_prefix(*store, ids, 8).source, kNative);
}

TEST(BlockStore, IdentitiesNeverShareAndOldOnesGoFirst) {
  const TempDir dir;
  const Ids ids = count_up(10);
  uint64_t file_bytes = 0;
  {
    const auto store = open_store(options(dir.path()), "old weights");
    ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
    store->flush();
    file_bytes = store->stats().disk_bytes;
  }
  const auto old = dir.path() / identity("old weights").hex();
  BlockStoreOptions o = options(dir.path());
  o.disk_quota_bytes = file_bytes + file_bytes / 2;
  const auto store = open_store(o, "new weights");
  EXPECT_EQ(tokens_of(*store, ids), 0);
  // A file of the other identity, even in the right place under the right name, is refused.
  const BlockKey key = block_key(root_key(store->identity()), kNative, std::span(ids).first(4));
  const auto other =
      file_of(dir.path(), block_key(root_key(identity("old weights")), kNative, std::span(ids).first(4)),
              "old weights");
  std::filesystem::create_directories(file_of(dir.path(), key, "new weights").parent_path());
  std::filesystem::copy_file(other, file_of(dir.path(), key, "new weights"));
  EXPECT_EQ(tokens_of(*store, ids), 0);
  EXPECT_EQ(quarantined_files(dir.path(), "new weights"), 1u);

  ASSERT_TRUE(std::filesystem::exists(old));
  ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
  store->flush();
  EXPECT_FALSE(std::filesystem::exists(old)) << "collected to keep the quota";
  EXPECT_EQ(store->stats().disk_blocks, 3u);
}

TEST(BlockStore, LeasesOutliveEvictionAndPurge) {
  BlockStoreOptions o = options();
  o.ram_bytes = 3 * (kP * 16 + kP * 4);
  const auto store = open_store(o);
  const Ids a = count_up(8);
  const Ids b = count_up(8, 100);
  ASSERT_TRUE(put_prompt(*store, a, kProjectA).ok());
  CachedPrefix lease = checked_prefix(*store, a, 8);
  ASSERT_EQ(lease.tokens, 8);
  // Two of three places are read from, so the second block of b has no room.
  EXPECT_EQ(put_prompt(*store, b, kNative).code(), Code::kResourceExhausted);
  EXPECT_EQ(tokens_of(*store, b), 4);
  EXPECT_EQ(tokens_of(*store, a), 8);
  EXPECT_EQ(store->purge_source(kProjectA.producer), 2u);
  EXPECT_EQ(tokens_of(*store, a), 0);
  EXPECT_EQ(lease.blocks[1]->planes, rows(a, 4, 8, kProjectA));
  EXPECT_TRUE(put_prompt(*store, b, kNative).ok());
  EXPECT_EQ(tokens_of(*store, b), 8);
  EXPECT_EQ(store->stats().refused_puts, 1u);
}

TEST(BlockStore, EvictsLeavesBeforeParentsLeastRecentlyUsedFirst) {
  BlockStoreOptions o = options();
  o.ram_bytes = 4 * (kP * 16 + kP * 4);
  const auto store = open_store(o);
  const Ids a = count_up(8);
  const Ids b = count_up(8, 100);
  const Ids c = count_up(4, 200);
  ASSERT_TRUE(put_prompt(*store, a, kNative).ok());
  ASSERT_TRUE(put_prompt(*store, b, kNative).ok());
  EXPECT_EQ(tokens_of(*store, a), 8);  // now b is the older one
  ASSERT_TRUE(put_prompt(*store, c, kNative).ok());
  EXPECT_EQ(store->cached_tokens(b, 8, nullptr), 4);
  EXPECT_EQ(store->cached_tokens(a, 8, nullptr), 8);
  ASSERT_TRUE(put_prompt(*store, count_up(4, 300), kNative).ok());
  EXPECT_EQ(store->cached_tokens(b, 8, nullptr), 0);
  EXPECT_EQ(store->cached_tokens(a, 8, nullptr), 8);
  EXPECT_EQ(store->stats().evicted_ram, 2u);
}

TEST(BlockStore, MemoryFloorRefusesNewBlocksAndKeepsOld) {
  uint64_t available = 10;
  BlockStoreOptions o = options();
  o.memory_floor_bytes = 10;
  o.available_memory = [&available] { return available; };
  const auto store = open_store(o);
  const Ids ids = count_up(12);
  const auto sink = store->open_chain({ids, 0, kNative, root_key(store->identity()), ""});
  ASSERT_TRUE(sink->put(0, 4, rows(ids, 0, 4, kNative)).ok());
  available = 9;
  EXPECT_EQ(sink->put(4, 8, rows(ids, 4, 8, kNative)).code(), Code::kResourceExhausted);
  EXPECT_TRUE(sink->seal(4).ok());
  EXPECT_EQ(tokens_of(*store, ids), 4);
  available = 0;  // unknown
  EXPECT_TRUE(put_prompt(*store, ids, kNative).ok());
  EXPECT_EQ(tokens_of(*store, ids), 12);
}

TEST(BlockStore, PurgeRemovesOneProducerFromBothTiers) {
  const TempDir dir;
  const Ids ids = count_up(10);
  {
    const auto store = open_store(options(dir.path()));
    ASSERT_TRUE(put_prompt(*store, ids, kProjectA).ok());
    ASSERT_TRUE(put_prompt(*store, ids, kProjectB).ok());
    ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
    store->flush();
    EXPECT_EQ(store->purge_source(kProjectA.producer), 3u);
    EXPECT_EQ(store->stats().disk_blocks, 6u);
    EXPECT_EQ(tokens_of(*store, ids, &kProjectA), 10) << "native";
    EXPECT_EQ(checked_prefix(*store, ids, 10, &kProjectA).source, kNative);
  }
  EXPECT_EQ(files_under(dir.path(), ".isb").size(), 6u);
  auto removed = purge_source_files(dir.path(), kProjectB.producer);
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 3u);
  const auto store = open_store(options(dir.path()));
  EXPECT_EQ(store->stats().disk_blocks, 3u);
  EXPECT_EQ(purge_source_files(dir.path(), kProjectB.producer).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace isthmus
