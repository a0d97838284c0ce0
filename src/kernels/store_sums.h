// SPDX-License-Identifier: Apache-2.0
// How matrix products end a row: its sums replace what `out` holds, or are added to it. Pure; any thread.
#pragma once

#include <cstdint>

namespace isthmus::kernels {

// sums, out: [columns]
inline void store_sums(const float* sums, int64_t columns, bool add, float* out) {
  for (int64_t j = 0; j < columns; ++j) out[j] = add ? out[j] + sums[j] : sums[j];
}

}  // namespace isthmus::kernels
