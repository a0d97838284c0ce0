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

Status restore_rows(const PlaneLayout& layout, const CachedPrefix& prefix, Sequence& seq) {
  TRY(seq.reserve(prefix.tokens));
  for (const BlockPtr& block : prefix.blocks) {
    const auto held = static_cast<int64_t>(block->ids.size());
    const int64_t wanted = std::min(prefix.tokens, block->last_token()) - block->first_token;
    if (block->planes.size() != layout.block_bytes(block->first_token, block->last_token()) || wanted < 0) {
      return {Code::kInvalidArgument, "restore: block at token " + std::to_string(block->first_token) +
                                          " holds " + std::to_string(block->planes.size()) +
                                          " bytes, not the layout's"};
    }
    std::span<const std::byte> rest = block->planes;
    for (size_t i = 0; i < layout.planes.size(); ++i) {
      const size_t row = layout.planes[i].row_bytes();
      seq.write_rows(layout.planes[i].layer, plane_of(i), block->first_token, wanted,
                     rest.first(static_cast<size_t>(wanted) * row));
      rest = rest.subspan(static_cast<size_t>(held) * row);
    }
  }
  seq.advance(prefix.tokens);
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
