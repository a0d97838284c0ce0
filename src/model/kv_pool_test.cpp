// SPDX-License-Identifier: Apache-2.0
#include "model/kv_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace isthmus {
namespace {

KvShape small_shape(DType dtype = DType::kBF16) {
  return {.layers = 2, .kv_heads = 3, .head_dim = 4, .dtype = dtype};
}

std::vector<std::byte> numbered_rows(const KvShape& s, int64_t n, int salt) {
  std::vector<std::byte> rows(static_cast<size_t>(n) * s.plane_row_bytes());
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::byte>((i * 7 + static_cast<size_t>(salt)) % 251);
  return rows;
}

void fill(Sequence& seq, int64_t n, int salt) {
  const KvShape& s = seq.pool().shape();
  ASSERT_TRUE(seq.reserve(n).ok());
  for (int layer = 0; layer < s.layers; ++layer) {
    seq.write_rows(layer, KvPlane::kKeys, seq.length(), n, numbered_rows(s, n, salt + layer));
    seq.write_rows(layer, KvPlane::kValues, seq.length(), n, numbered_rows(s, n, salt + layer + 100));
  }
  seq.advance(n);
}

std::vector<std::byte> rows_of(const Sequence& seq, int layer, KvPlane plane, int64_t first, int64_t n) {
  std::vector<std::byte> rows(static_cast<size_t>(n) * seq.pool().shape().plane_row_bytes());
  seq.read_rows(layer, plane, first, n, rows);
  return rows;
}

TEST(KvPool, RowsSurviveThePageLayout) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    KvPool pool = KvPool::create(small_shape(dtype), 300).take();
    Sequence seq(pool);
    fill(seq, 200, 5);
    const KvShape& s = pool.shape();
    for (int layer = 0; layer < s.layers; ++layer) {
      EXPECT_EQ(rows_of(seq, layer, KvPlane::kKeys, 0, 200), numbered_rows(s, 200, 5 + layer));
      EXPECT_EQ(rows_of(seq, layer, KvPlane::kValues, 0, 200), numbered_rows(s, 200, 105 + layer));
    }
    // Row 70, head 2 lies on page 1 at K [Hk, 64, D].
    const kernels::KvLayerView view = seq.view(1);
    const size_t run = row_bytes(dtype, s.head_dim);
    const std::byte* key =
        view.base + static_cast<size_t>(view.table[1]) * view.page_bytes + (2 * 64 + 6) * run;
    EXPECT_EQ(std::memcmp(key, numbered_rows(s, 200, 6).data() + 70 * s.plane_row_bytes() + 2 * run, run), 0);
  }
}

TEST(KvPool, GivesPagesOutAndTakesThemBack) {
  KvPool pool = KvPool::create(small_shape(), 4 * 64).take();
  EXPECT_EQ(pool.pages(), 4);
  {
    Sequence a(pool);
    fill(a, 65, 1);
    EXPECT_EQ(pool.free_pages(), 2);
    Sequence b(pool);
    EXPECT_EQ(b.reserve(129).code(), Code::kResourceExhausted);
    EXPECT_EQ(pool.free_pages(), 2) << "a refused reserve takes nothing";
    ASSERT_TRUE(b.reserve(128).ok());
    EXPECT_EQ(pool.free_pages(), 0);
    Sequence c(std::move(b));
    a = std::move(c);
    EXPECT_EQ(pool.free_pages(), 2) << "assignment gives the old pages back";
    a.truncate(0);
    EXPECT_EQ(pool.free_pages(), 4);
    fill(a, 10, 1);
  }
  EXPECT_EQ(pool.free_pages(), 4);
}

TEST(KvPool, TruncateKeepsThePartialPage) {
  KvPool pool = KvPool::create(small_shape(), 4 * 64).take();
  Sequence seq(pool);
  fill(seq, 140, 9);
  seq.truncate(100);
  EXPECT_EQ(seq.length(), 100);
  EXPECT_EQ(pool.free_pages(), 2);
  fill(seq, 20, 50);
  const KvShape& s = pool.shape();
  const std::vector<std::byte> before = numbered_rows(s, 140, 9);
  const std::vector<std::byte> kept(before.begin(),
                                    before.begin() + static_cast<long>(100 * s.plane_row_bytes()));
  EXPECT_EQ(rows_of(seq, 0, KvPlane::kKeys, 0, 100), kept);
  EXPECT_EQ(rows_of(seq, 0, KvPlane::kKeys, 100, 20), numbered_rows(s, 20, 50));
}

TEST(KvPool, SharedPagesAreCopiedBeforeARowIsRewritten) {
  KvPool pool = KvPool::create(small_shape(), 6 * 64).take();
  Sequence donor(pool);
  fill(donor, 130, 3);
  Sequence reader(pool);
  reader.share_prefix(donor, 128);
  EXPECT_EQ(reader.length(), 128);
  EXPECT_EQ(pool.free_pages(), 3) << "sharing takes no page";
  const std::vector<std::byte> before = rows_of(donor, 1, KvPlane::kValues, 0, 130);
  reader.truncate(70);
  fill(reader, 10, 77);
  EXPECT_EQ(rows_of(donor, 1, KvPlane::kValues, 0, 130), before);
  EXPECT_EQ(rows_of(reader, 1, KvPlane::kValues, 70, 10), numbered_rows(pool.shape(), 10, 77 + 101));
  EXPECT_EQ(rows_of(reader, 0, KvPlane::kKeys, 0, 70), rows_of(donor, 0, KvPlane::kKeys, 0, 70));
  donor.truncate(0);
  EXPECT_EQ(rows_of(reader, 0, KvPlane::kKeys, 70, 10), numbered_rows(pool.shape(), 10, 77));
  reader.truncate(0);
  EXPECT_EQ(pool.free_pages(), 6);
}

TEST(KvPool, TooLargeIsAnError) {
  KvShape huge{.layers = 1000, .kv_heads = 128, .head_dim = 256};
  EXPECT_EQ(KvPool::create(huge, int64_t{1} << 50).status().code(), Code::kResourceExhausted);
}

}  // namespace
}  // namespace isthmus
