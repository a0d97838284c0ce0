// SPDX-License-Identifier: Apache-2.0
// Byte-pair merges over token ids: the merge table and the merge loop. Owned by Tokenizer; immutable after
// the adds; any thread may merge. A piece of n bytes costs O(n log n), whatever its content. It knows no
// spellings and no text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace isthmus {

class MergeTable {
 public:
  explicit MergeTable(size_t merges);  // sized for that many add() calls; more are our own bug

  // The next rank (lower ranks merge first) joins `left right` into `joined`. Ids are >= 0. A pair added
  // twice keeps its first rank.
  void add(TokenId left, TokenId right, TokenId joined);

  // Merges `symbols` (single-byte tokens of one piece) to the end and appends the result: always the pair of
  // the lowest rank, of equal ranks the leftmost.
  void merge(std::span<const TokenId> symbols, std::vector<TokenId>& out) const;

 private:
  struct Entry {
    uint64_t pair;
    uint32_t rank;
    TokenId joined;
  };
  const Entry* find(TokenId left, TokenId right) const;
  size_t slot_of(uint64_t pair) const;
  void merge_short(std::span<const TokenId> symbols, std::vector<TokenId>& out) const;
  void merge_long(std::span<const TokenId> symbols, std::vector<TokenId>& out) const;

  std::vector<Entry> entries_;  // open addressing, power-of-two size
  uint64_t mask_;
  size_t capacity_;
  uint32_t next_rank_ = 0;
  size_t used_ = 0;
};

}  // namespace isthmus
