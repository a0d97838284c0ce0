// SPDX-License-Identifier: Apache-2.0
// cos/sin of RoPE for every position up to a limit, computed in double and rounded to f32 once, so that
// whoever holds the same RopeConfig has the same bits. Immutable after creation; any thread. Applying them is
// kernels::rope.
#pragma once

#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "model/config.h"

namespace isthmus {

class RopeTable {
 public:
  // Errors: kResourceExhausted.
  static Result<RopeTable> create(const RopeConfig& rope, int64_t positions);

  int64_t positions() const { return positions_; }
  int half() const { return half_; }  // rotary_dim / 2
  // Rows of consecutive positions are contiguous: [positions - first, half] f32.
  const float* cos(int64_t first) const { return cos_.data() + first * half_; }
  const float* sin(int64_t first) const { return sin_.data() + first * half_; }

 private:
  int half_ = 0;
  int64_t positions_ = 0;
  AlignedBuffer<float> cos_, sin_;
};

}  // namespace isthmus
