// SPDX-License-Identifier: Apache-2.0
// Planes: the tensors of a decoder's finished cache, and which of their rows a block carries. One table
// serves the handoff frames, the block files and the engines; sizes are closed-form in the token range, so
// everything a peer or file claims can be checked. Values; any thread. Not the paged KV of a running sequence
// (model/kv_pool.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "base/status.h"

namespace isthmus {

// For a block of tokens [a, b), r = ratio:
enum class PlaneKind : uint8_t {
  kTokenRows,  // one row a token: rows [a, b)
  kPooled,     // one row per r tokens, only those finished in this block: rows [a / r, b / r)
  kWindow,     // snapshot at b: the last r rows, tokens [max(0, b - r), b)
  kPrevious,   // snapshot at b: the rows of the last finished window of r tokens, none before the first
  kRemainder,  // snapshot at b: the rows of the unfinished window, b mod r of them
};

std::string_view plane_kind_name(PlaneKind kind);

struct PlaneSpec {
  std::string name;  // unique, [A-Za-z0-9._-]{1,64}, e.g. "L12.k"
  int layer = 0;
  PlaneKind kind = PlaneKind::kTokenRows;
  int64_t ratio = 1;  // r above; 1 for kTokenRows
  DType dtype = DType::kBF16;
  int64_t row_values = 0;  // values in a row, e.g. Hk * D
  bool operator==(const PlaneSpec&) const = default;
  size_t row_bytes() const { return isthmus::row_bytes(dtype, row_values); }
};

// First row (absolute) and number of rows that a block [a, b) carries of this plane.
struct PlaneRows {
  int64_t first = 0;
  int64_t count = 0;
  bool operator==(const PlaneRows&) const = default;
};
PlaneRows plane_rows(const PlaneSpec& spec, int64_t a, int64_t b);

// The planes of one decoder, in the order in which a block's bytes are laid out (plane after plane, no
// padding).
struct PlaneLayout {
  int block_tokens = 256;  // P
  std::vector<PlaneSpec> planes;
  bool operator==(const PlaneLayout&) const = default;

  // True when every plane has one row a token: a block may then be used, or cut, at any token.
  bool sliceable() const;
  size_t block_bytes(int64_t a, int64_t b) const;  // all planes of tokens [a, b)

  Json to_json() const;
  static Result<PlaneLayout> from_json(
      const Json& j);  // checks names, kinds, sizes and limits (4,096 planes, 1 MiB rows)
};

// K and V of every layer, named "L<i>.k" and "L<i>.v": rows of `row_values` (Hk * D) values of the cache
// dtype.
PlaneLayout native_layout(int layers, int64_t row_values, int block_tokens, DType cache_dtype);

}  // namespace isthmus
