// SPDX-License-Identifier: Apache-2.0
// How far two arrays of one dtype are apart, for the tools that compare blocks and saved states. Pure; any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace isthmus {

struct ValueDiff {
  int64_t values = 0;
  int64_t equal_bits = 0;  // values whose stored bits are equal
  int64_t non_finite = 0;  // pairs with a NaN or an infinity that are not bit-equal
  double max_abs = 0;      // of the finite pairs
  double relative = 0;     // ‖a - b‖ / ‖a‖ of the finite pairs; 1 where a is zero and b is not
  bool identical() const { return equal_bits == values; }
};

// Plain dtypes (one value per storage block); `a` and `b` of equal size, whole values. kF8E8M0 scales are
// compared as bytes.
ValueDiff diff_values(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace isthmus
