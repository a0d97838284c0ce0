// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

#include "base/status.h"

namespace isthmus {
namespace {

constexpr uint64_t kEmpty = ~uint64_t{0};
constexpr uint32_t kNoRank = ~uint32_t{0};
constexpr uint32_t kNone = ~uint32_t{0};

// Up to here scanning all pairs for the lowest rank beats a heap.
constexpr size_t kShortPiece = 24;

uint64_t pair_key(TokenId left, TokenId right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

struct Symbol {
  TokenId id;
  uint32_t previous;
  uint32_t next;
  bool alive;
};

// A pair that could be merged; stale once one of its symbols has changed, which is found out when it is
// taken.
struct Candidate {
  uint32_t rank;
  uint32_t at;  // left symbol
  TokenId left;
  TokenId right;
  TokenId joined;
};
std::vector<Symbol> linked(std::span<const TokenId> ids) {
  std::vector<Symbol> list;
  list.reserve(ids.size());
  const auto n = static_cast<uint32_t>(ids.size());
  for (uint32_t i = 0; i < n; ++i)
    list.push_back({ids[i], i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, true});
  return list;
}

struct Later {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }
};

}  // namespace

MergeTable::MergeTable(size_t merges)
    : entries_(std::bit_ceil(merges * 2 + 2), Entry{kEmpty, 0, 0}),
      mask_(entries_.size() - 1),
      capacity_(merges) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  uint64_t h = pair * 0x9E3779B97F4A7C15ull;
  size_t slot = (h ^ (h >> 32)) & mask_;
  while (entries_[slot].pair != kEmpty && entries_[slot].pair != pair) slot = (slot + 1) & mask_;
  return slot;
}

void MergeTable::add(TokenId left, TokenId right, TokenId joined) {
  ISTHMUS_CHECK(left >= 0 && right >= 0 && next_rank_ < capacity_);
  const uint32_t rank = next_rank_++;
  Entry& entry = entries_[slot_of(pair_key(left, right))];
  if (entry.pair == kEmpty) entry = Entry{pair_key(left, right), rank, joined};
}

const MergeTable::Entry* MergeTable::find(TokenId left, TokenId right) const {
  const Entry& entry = entries_[slot_of(pair_key(left, right))];
  return entry.pair == kEmpty ? nullptr : &entry;
}

void MergeTable::merge(std::span<const TokenId> symbols, std::vector<TokenId>& out) const {
  if (symbols.size() <= kShortPiece) {
    merge_short(symbols, out);
  } else {
    merge_long(symbols, out);
  }
}

void MergeTable::merge_short(std::span<const TokenId> symbols, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortPiece> ids;
  std::array<uint32_t, kShortPiece> rank;  // of the pair (i, i + 1)
  std::array<TokenId, kShortPiece> joined;
  size_t n = symbols.size();
  std::copy(symbols.begin(), symbols.end(), ids.begin());
  const auto look_up = [&](size_t i) {
    const Entry* entry = i + 1 < n ? find(ids[i], ids[i + 1]) : nullptr;
    rank[i] = entry != nullptr ? entry->rank : kNoRank;
    joined[i] = entry != nullptr ? entry->joined : 0;
  };
  for (size_t i = 0; i < n; ++i) look_up(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (rank[i] < rank[best]) best = i;
    }
    if (rank[best] == kNoRank) break;
    ids[best] = joined[best];
    for (size_t i = best + 1; i + 1 < n; ++i) {
      ids[i] = ids[i + 1];
      rank[i] = rank[i + 1];
      joined[i] = joined[i + 1];
    }
    --n;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(n));
}

void MergeTable::merge_long(std::span<const TokenId> symbols, std::vector<TokenId>& out) const {
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<Symbol> list = linked(symbols);
  std::priority_queue<Candidate, std::vector<Candidate>, Later> heap;
  const auto offer = [&](uint32_t at) {
    if (at == kNone || list[at].next == kNone) return;
    const TokenId left = list[at].id;
    const TokenId right = list[list[at].next].id;
    if (const Entry* entry = find(left, right)) heap.push({entry->rank, at, left, right, entry->joined});
  };
  for (uint32_t i = 0; i + 1 < n; ++i) offer(i);
  while (!heap.empty()) {
    const Candidate c = heap.top();
    heap.pop();
    Symbol& left = list[c.at];
    if (!left.alive || left.id != c.left || left.next == kNone || list[left.next].id != c.right) continue;
    Symbol& right = list[left.next];
    right.alive = false;
    left.id = c.joined;
    left.next = right.next;
    if (left.next != kNone) list[left.next].previous = c.at;
    offer(left.previous);
    offer(c.at);
  }
  for (const Symbol& s : list) {
    if (s.alive) out.push_back(s.id);
  }
}

}  // namespace isthmus
