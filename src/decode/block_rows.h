// SPDX-License-Identifier: Apache-2.0
// Between blocks and the paged cache of a running sequence: leased blocks become rows, finished rows become a
// block's bytes. Engine thread. Plain K/V layouts only (flow/plane.h native_layout).
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "flow/prefix_store.h"
#include "model/kv_pool.h"

namespace isthmus {

// Appends rows [first, until) of a block that holds tokens [first, last); planes: its bytes in layout order,
// of all its rows. Errors: kResourceExhausted (pool), kInvalidArgument (not the layout's size, or not what
// follows the sequence); the sequence is unchanged then.
Status append_rows(const PlaneLayout& layout, int64_t first, int64_t last, std::span<const std::byte> planes,
                   int64_t until, Sequence& seq);

// Fills an empty sequence with rows [0, prefix.tokens). Errors: those of append_rows.
Status restore_rows(const PlaneLayout& layout, const CachedPrefix& prefix, Sequence& seq);

// Bytes of all planes for tokens [first, last) of the sequence, in layout order.
Bytes collect_rows(const PlaneLayout& layout, const Sequence& seq, int64_t first, int64_t last);

}  // namespace isthmus
