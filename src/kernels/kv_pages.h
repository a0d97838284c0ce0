// SPDX-License-Identifier: Apache-2.0
// Where the rows of a paged KV cache lie (attention.h: page = K [Hk, 64, D] then V [Hk, 64, D]). Borrowed
// pointers; any thread. Not the cache itself: model/ owns the pages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace isthmus::kernels {

// First K row (token 64 * page) of one head; the page's 64 rows of that head follow one another, D values
// each.
template <typename T>
T* k_rows(const KvLayerView& kv, int64_t page, int head) {
  std::byte* start = kv.base + static_cast<size_t>(kv.table[page]) * kv.page_bytes;
  return reinterpret_cast<T*>(start) + static_cast<int64_t>(head) * kPageTokens * kv.head_dim;
}

template <typename T>
T* v_rows(const KvLayerView& kv, int64_t page, int head) {
  return k_rows<T>(kv, page, head) + static_cast<int64_t>(kv.kv_heads) * kPageTokens * kv.head_dim;
}

// First key that a query at `position` sees.
inline int64_t first_visible(const AttentionShape& shape, int64_t position) {
  return shape.window > 0 && position >= shape.window ? position - shape.window + 1 : 0;
}

}  // namespace isthmus::kernels
