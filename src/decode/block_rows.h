// SPDX-License-Identifier: Apache-2.0
// Between blocks and the paged cache of a running sequence: leased blocks become rows, finished rows become a
// block's bytes. Engine thread. Plain K/V layouts only (flow/plane.h native_layout).
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "flow/prefix_store.h"
#include "model/kv_pool.h"

namespace isthmus {

// Fills an empty sequence with rows [0, prefix.tokens). Errors: kResourceExhausted (pool), kInvalidArgument
// (a block whose size is not the layout's).
Status restore_rows(const PlaneLayout& layout, const CachedPrefix& prefix, Sequence& seq);

// Bytes of all planes for tokens [first, last) of the sequence, in layout order.
Bytes collect_rows(const PlaneLayout& layout, const Sequence& seq, int64_t first, int64_t last);

}  // namespace isthmus
