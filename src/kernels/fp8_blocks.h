// SPDX-License-Identifier: Apache-2.0
// The values that an FP8 checkpoint keeps: e4m3 numbers with one f32 scale for each block of 128 x 128
// weights, the form in which large models are published. Rounds matrices to them, in f32; stores nothing in 8
// bits. Pure; any thread. Load-time work, not a fast kernel.
#pragma once

#include <cstdint>

namespace isthmus::kernels {

inline constexpr int64_t kFp8Block = 128;

// The nearest e4m3 value, ties to the even one; beyond the largest (448) it is that one. NaN stays NaN.
float round_to_e4m3(float v);

// In place. matrix: [rows, columns], row-major. A block's scale is its largest magnitude / 448; blocks at the
// right and lower edge may be smaller. A block with a value that is not finite becomes NaN.
void round_to_fp8_blocks(float* matrix, int64_t rows, int64_t columns);

}  // namespace isthmus::kernels
