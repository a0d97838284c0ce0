// SPDX-License-Identifier: Apache-2.0
#include "decode/block_rows.h"

#include <algorithm>

namespace isthmus {
namespace {

// native_layout alternates K and V of ascending layers.
KvPlane plane_of(size_t index) {
  return index % 2 == 0 ? KvPlane::kKeys : KvPlane::kValues;
}

}  // namespace

Status append_rows(const PlaneLayout& layout, int64_t first, int64_t last, std::span<const std::byte> planes,
                   int64_t until, Sequence& seq) {
  if (first != seq.length() || until < first || until > last ||
      planes.size() != layout.block_bytes(first, last)) {
    return {Code::kInvalidArgument, "block of tokens " + std::to_string(first) + " to " +
                                        std::to_string(last) + ": " + std::to_string(planes.size()) +
                                        " bytes, behind " + std::to_string(seq.length()) +
                                        " rows; expected " + std::to_string(layout.block_bytes(first, last))};
  }
  TRY(seq.reserve(until - first));
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    const size_t row = layout.planes[i].row_bytes();
    seq.write_rows(layout.planes[i].layer, plane_of(i), first, until - first,
                   planes.first(static_cast<size_t>(until - first) * row));
    planes = planes.subspan(static_cast<size_t>(last - first) * row);
  }
  seq.advance(until - first);
  return {};
}

Status restore_rows(const PlaneLayout& layout, const CachedPrefix& prefix, Sequence& seq) {
  TRY(seq.reserve(prefix.tokens));
  for (const BlockPtr& block : prefix.blocks) {
    TRY(append_rows(layout, block->first_token, block->last_token(), block->planes,
                    std::min(prefix.tokens, block->last_token()), seq));
  }
  return {};
}

Bytes collect_rows(const PlaneLayout& layout, const Sequence& seq, int64_t first, int64_t last) {
  Bytes bytes(layout.block_bytes(first, last));
  std::span<std::byte> rest = bytes;
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    const size_t n = static_cast<size_t>(last - first) * layout.planes[i].row_bytes();
    seq.read_rows(layout.planes[i].layer, plane_of(i), first, last - first, rest.first(n));
    rest = rest.subspan(n);
  }
  return bytes;
}

}  // namespace isthmus
