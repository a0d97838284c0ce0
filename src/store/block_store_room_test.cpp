// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "store/chain_sink.h"
#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

const Source kProject = bridged(SourceKind::kProject, "A");
constexpr int64_t kLongest = 6 * kP + 3;
constexpr uint64_t kBlockBytes = kP * (16 + sizeof(TokenId));

// Puts a chain whose files are as long as files can be; what is left of it once the disk is idle.
int64_t kept(BlockStore& store, int64_t tokens) {
  const Ids ids = count_up(tokens);
  const std::string transfer_id(kMaxTransferIdBytes, 'x');
  {
    const auto sink = store.open_chain({ids, 0, kProject, root_key(store.identity()), transfer_id});
    for (int64_t a = 0; a < tokens; a += kP) {
      const int64_t b = std::min<int64_t>(a + kP, tokens);
      if (!sink->put(a, b, rows(ids, a, b, kProject)).ok()) break;
    }
  }
  store.flush();
  return store.cached_tokens(ids, tokens, &kProject);
}

TEST(BlockStoreRoom, MemoryAloneHoldsWhatItSays) {
  for (const uint64_t ram : {uint64_t{0}, kBlockBytes - 1, kBlockBytes, 2 * kBlockBytes + kBlockBytes / 2}) {
    BlockStoreOptions o = options();
    o.ram_bytes = ram;
    for (int64_t tokens = 0; tokens <= kLongest; ++tokens) {
      const auto store = open_store(o);
      EXPECT_EQ(store->storable_tokens(tokens), kept(*store, tokens)) << tokens << " in " << ram;
    }
  }
  BlockStoreOptions o = options();
  o.ram_bytes = open_store(o)->chain_bytes(kLongest).ram;
  EXPECT_EQ(open_store(o)->storable_tokens(kLongest), kLongest);
  --o.ram_bytes;
  EXPECT_EQ(open_store(o)->storable_tokens(kLongest), 6 * kP);
}

TEST(BlockStoreRoom, WithADiskTheQuotaCountsAndMemoryHoldsTheRest) {
  const TempDir sizes;
  const uint64_t file_bytes = open_store(options(sizes.path()))->chain_bytes(kP).disk;
  for (const uint64_t ram_blocks : {0u, 2u}) {
    for (const uint64_t disk_blocks : {0u, 1u, 3u, 100u}) {
      for (int64_t tokens = 0; tokens <= kLongest; tokens += 3) {
        const TempDir dir;
        BlockStoreOptions o = options(dir.path());
        o.ram_bytes = ram_blocks * kBlockBytes;
        o.disk_quota_bytes = disk_blocks * file_bytes;
        const auto store = open_store(o);
        const int64_t room = store->storable_tokens(tokens);
        EXPECT_EQ(room, std::min<int64_t>(tokens, static_cast<int64_t>(ram_blocks + disk_blocks) * kP));
        EXPECT_EQ(room, kept(*store, tokens)) << tokens << " in " << ram_blocks << " + " << disk_blocks;
      }
    }
  }
}

TEST(BlockStoreRoom, ABlockLandsBesideItsParent) {
  const TempDir dir;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = kBlockBytes;
  o.write_queue_bytes = kBlockBytes - 1;
  EXPECT_EQ(open_store(o)->storable_tokens(kLongest), kP);
  o.write_queue_bytes = kBlockBytes;
  EXPECT_EQ(open_store(o)->storable_tokens(kLongest), kLongest);
}

}  // namespace
}  // namespace isthmus
