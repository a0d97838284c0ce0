// SPDX-License-Identifier: Apache-2.0
// Planes that are not one row a token: windows, pools as deltas, previous windows, remainders, a layer with a
// window only. Data: the cache of a tiny DeepSeek-V4 after 256 and 512 tokens.
#include <gtest/gtest.h>

#include <cstring>

#include "flow/hybrid_test_util.h"
#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

using namespace hybrid_test;

TEST(BlockStoreHybrid, RestoresEveryPlaneByteForByte) {
  const TempDir dir;
  const PlaneLayout layout = hybrid_layout();
  const Safetensors at256 = golden(256);
  const Safetensors at512 = golden(512);
  const Bytes first = block_planes(layout, at256, 256);
  const Bytes second = block_planes(layout, at512, 512);
  const Ids ids = count_up(523);
  BlockStoreOptions o = options(dir.path());
  const Source source = bridged(SourceKind::kProject, "A");
  {
    auto store = BlockStore::create(o, layout, identity());
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    const auto sink = (*store)->open_chain({ids, 0, source, root_key(identity()), "t"});
    ASSERT_TRUE(sink->put(0, 256, first).ok());
    ASSERT_TRUE(sink->put(256, 512, second).ok());
    ASSERT_TRUE(sink->seal(512).ok());
  }
  auto store = BlockStore::create(o, layout, identity());
  ASSERT_TRUE(store.ok());
  const CachedPrefix found = (*store)->longest_prefix(ids, 522, nullptr);
  ASSERT_EQ(found.tokens, 512);
  EXPECT_EQ((*store)->stats().disk_reads, 2u);
  EXPECT_EQ(found.blocks[0]->planes, first);
  EXPECT_EQ(found.blocks[1]->planes, second);

  // The deltas of both blocks together are the pools after 512 tokens.
  size_t at[2] = {0, 0};
  for (const PlaneSpec& p : layout.planes) {
    Bytes pool;
    for (size_t i = 0; i < 2; ++i) {
      const auto b = static_cast<int64_t>(i + 1) * kBlock;
      const size_t n = static_cast<size_t>(plane_rows(p, b - kBlock, b).count) * p.row_bytes();
      const auto part = std::span(found.blocks[i]->planes).subspan(at[i], n);
      pool.insert(pool.end(), part.begin(), part.end());
      at[i] += n;
    }
    if (p.kind != PlaneKind::kPooled) continue;
    const auto whole = tensor(at512, p.name);
    ASSERT_EQ(pool.size(), whole.size()) << p.name;
    EXPECT_EQ(std::memcmp(pool.data(), whole.data(), pool.size()), 0) << p.name;
  }
}

TEST(BlockStoreHybrid, BlocksCountOnlyWhole) {
  PlaneLayout layout = tiny_layout();
  layout.planes.push_back({"L0.window", 0, PlaneKind::kWindow, 2, DType::kBF16, 2});
  ASSERT_FALSE(layout.sliceable());
  auto store = BlockStore::create(options(), layout, identity());
  ASSERT_TRUE(store.ok());
  const Ids ids = count_up(10);
  const auto sink = (*store)->open_chain({ids, 0, kNative, root_key(identity()), ""});
  for (int64_t a = 0; a < 10; a += kP) {
    const int64_t b = std::min<int64_t>(a + kP, 10);
    ASSERT_TRUE(sink->put(a, b, Bytes(layout.block_bytes(a, b))).ok());
  }
  const int64_t expected[] = {0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 10, 10};
  Ids longer = ids;
  longer.push_back(77);
  for (int64_t limit = 0; limit <= 11; ++limit) {
    EXPECT_EQ((*store)->cached_tokens(longer, limit, nullptr), expected[limit]) << limit;
    EXPECT_EQ((*store)->longest_prefix(longer, limit, nullptr).tokens, expected[limit]) << limit;
  }
  longer[9] = 50;  // differs within the tail
  EXPECT_EQ((*store)->cached_tokens(longer, 11, nullptr), 8);
}

}  // namespace
}  // namespace isthmus
