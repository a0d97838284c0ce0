// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace isthmus {
namespace {

// The definition: again and again the pair of the lowest rank, of equal ranks the leftmost.
using Ranks = std::map<std::pair<TokenId, TokenId>, std::pair<size_t, TokenId>>;
std::vector<TokenId> merge_by_definition(std::vector<TokenId> ids, const Ranks& ranks) {
  for (;;) {
    auto best = ranks.end();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto it = ranks.find({ids[i], ids[i + 1]});
      if (it != ranks.end() && (best == ranks.end() || it->second.first < best->second.first)) {
        best = it;
        at = i;
      }
    }
    if (best == ranks.end()) return ids;
    ids[at] = best->second.second;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(MergeTable, EqualsTheDefinitionForEveryLength) {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const size_t alphabet = 2 + random() % 4;
    const size_t merges = 1 + random() % 60;
    MergeTable table(merges);
    Ranks ranks;
    auto next = static_cast<TokenId>(alphabet);
    for (size_t rank = 0; rank < merges; ++rank) {
      const auto left = static_cast<TokenId>(random() % static_cast<size_t>(next));
      const auto right = static_cast<TokenId>(random() % static_cast<size_t>(next));
      table.add(left, right, next);
      ranks.emplace(std::pair{left, right}, std::pair{rank, next});
      ++next;
    }
    for (size_t n = 0; n < 90; ++n) {
      std::vector<TokenId> symbols(n);
      for (TokenId& s : symbols) s = static_cast<TokenId>(random() % alphabet);
      std::vector<TokenId> merged{-7};  // what is there stays
      table.merge(symbols, merged);
      std::vector<TokenId> expected = merge_by_definition(symbols, ranks);
      expected.insert(expected.begin(), -7);
      ASSERT_EQ(merged, expected) << "round " << round << " length " << n;
    }
  }
}

TEST(MergeTable, WithoutMergesSymbolsStay) {
  const MergeTable table(0);
  std::vector<TokenId> out;
  table.merge(std::vector<TokenId>{3, 1, 2}, out);
  EXPECT_EQ(out, (std::vector<TokenId>{3, 1, 2}));
}

}  // namespace
}  // namespace isthmus
