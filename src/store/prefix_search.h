// SPDX-License-Identifier: Apache-2.0
// The longest usable prefix of a token list, found in the block table alone. A chain is native from the root
// and may switch once, at any block, to one bridged source, with which it stays. Pure functions over the
// table; the caller holds the store's mutex.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "flow/block.h"
#include "flow/plane.h"
#include "store/block_table.h"

namespace isthmus {

using KeySet = std::unordered_set<BlockKey, DigestHash>;

struct PrefixQuery {
  std::span<const TokenId> ids;
  int64_t limit = 0;  // at most this many tokens are wanted
  bool native = true;
  std::vector<Source> bridged;       // sources to switch to, most wanted first
  const KeySet* excluded = nullptr;  // blocks that turned out unreadable during this lookup; may be null
};

// Where a chain ended: a block that would continue it, if there were one.
struct ChainEnd {
  BlockKey parent;
  int64_t first = 0;
  Source source;
};

struct PrefixPlan {
  int64_t tokens = 0;
  std::vector<BlockKey> keys;  // from token 0; the last one may be used in part
  Source source;               // the bridged one if any block is bridged
  // The end of the native chain, and for each bridged source its start at the root, at the end of the native
  // chain and the end of its own longest chain: where blocks that somebody else wrote would continue.
  std::vector<ChainEnd> ends;
};

PrefixPlan plan_prefix(const BlockTable& table, const PlaneLayout& layout, const BlockKey& root,
                       const PrefixQuery& query);

}  // namespace isthmus
