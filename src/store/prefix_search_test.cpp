// SPDX-License-Identifier: Apache-2.0
#include "store/prefix_search.h"

#include <gtest/gtest.h>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

const Source kA = bridged(SourceKind::kProject, "A");
const Source kB = bridged(SourceKind::kProject, "B");

// Puts into a table what the store itself would refuse; files from elsewhere might.
BlockKey add(BlockTable& table, const BlockKey& parent, int64_t first, const Ids& ids, const Source& source) {
  const BlockKey key = block_key(parent, source, ids);
  table.add({key, parent, first, ids, source});
  return key;
}

TEST(PrefixSearch, NeverSwitchesTwice) {
  BlockTable table;
  const BlockKey root = root_key(identity());
  const Ids ids = count_up(12);
  const auto part = [&](int64_t a, int64_t b) { return Ids(ids.begin() + a, ids.begin() + b); };
  const BlockKey first = add(table, root, 0, part(0, 4), kA);
  add(table, first, 4, part(4, 8), kB);
  add(table, first, 4, part(4, 8), kNative);
  add(table, first, 4, part(4, 6), kB);
  add(table, first, 4, part(4, 5), kA);
  const PrefixPlan plan = plan_prefix(table, tiny_layout(), root, {ids, 12, true, {kA, kB}, nullptr});
  EXPECT_EQ(plan.tokens, 5);
  EXPECT_EQ(plan.source, kA);
}

TEST(PrefixSearch, ABlockCountsOnlyAtItsOwnPlace) {
  BlockTable table;
  const BlockKey root = root_key(identity());
  const Ids ids = count_up(8);
  add(table, root, 4, ids, kNative);  // says it starts at 4, but follows the root
  add(table, root, 4, Ids(ids.begin(), ids.begin() + 4), kNative);
  EXPECT_EQ(plan_prefix(table, tiny_layout(), root, {ids, 8, true, {}, nullptr}).tokens, 0);
}

TEST(PrefixSearch, LeavesOutWhatIsExcluded) {
  BlockTable table;
  const BlockKey root = root_key(identity());
  const Ids ids = count_up(8);
  const BlockKey native = add(table, root, 0, Ids(ids.begin(), ids.begin() + 4), kNative);
  const BlockKey other = add(table, root, 0, Ids(ids.begin(), ids.begin() + 4), kA);
  add(table, native, 4, Ids(ids.begin() + 4, ids.end()), kNative);
  const auto plan = [&](const KeySet& excluded) {
    return plan_prefix(table, tiny_layout(), root, {ids, 8, true, {kA}, &excluded});
  };
  EXPECT_EQ(plan({}).tokens, 8);
  EXPECT_EQ(plan({native}).tokens, 4);
  EXPECT_EQ(plan({native}).source, kA);
  EXPECT_EQ(plan({native, other}).tokens, 0);
}

}  // namespace
}  // namespace isthmus
