// SPDX-License-Identifier: Apache-2.0
// Readers, writers, a purger and the disk writer at once, in tiers that are too small: every prefix is
// checked against the bytes it must have.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

Ids shared_prompt(std::mt19937& random) {
  Ids ids(random() % 20 + 1);
  for (TokenId& id : ids) id = static_cast<TokenId>(random() % 6 == 0);
  return ids;
}

TEST(BlockStoreThreads, PrefixesAreRightWhateverTheOthersDo) {
  const TempDir dir;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = 900;
  o.disk_quota_bytes = 12000;
  o.write_queue_bytes = 500;
  const auto store = open_store(o);
  const std::vector<Source> sources = {kNative, bridged(SourceKind::kProject, "A"),
                                       bridged(SourceKind::kProject, "B")};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&store, &sources, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 150; ++i) {
        const Status put = put_prompt(*store, shared_prompt(random), sources[random() % sources.size()]);
        // Full of blocks that may not go, or the parent was evicted or purged between lookup and put.
        const bool expected =
            put.ok() || put.code() == Code::kResourceExhausted || put.code() == Code::kNotFound;
        EXPECT_TRUE(expected) << put.to_string();
        (void)tokens_of(*store, shared_prompt(random));
        if (t == 0 && i % 10 == 9) (void)store->purge_source(sources[1].producer);
        if (t == 1 && i % 20 == 19) store->flush();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  store->flush();
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.queued_bytes, 0u);
  EXPECT_EQ(stats.quarantined, 0u);
  EXPECT_LE(stats.ram_bytes, o.ram_bytes);
  EXPECT_LE(stats.disk_bytes, o.disk_quota_bytes);
  EXPECT_EQ(files_under(dir.path(), ".isb").size(), stats.disk_blocks);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_GT(stats.disk_reads, 0u);
}

}  // namespace
}  // namespace isthmus
