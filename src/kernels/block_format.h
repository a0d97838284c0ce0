// SPDX-License-Identifier: Apache-2.0
// Quantized block types of model files: expanding them to f32, and making them (convert, tests). Pure
// functions; any thread. The byte layout of each type is described beside its code. Scalar: this is load-time
// work and the twin of the SIMD kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/status.h"

namespace isthmus::kernels {

// out[n] f32 = the values of n / block_elements blocks. Any DType but the integers and kF8E8M0; n a multiple
// of the block.
void dequantize_row(DType dtype, const std::byte* blocks, int64_t n, float* out);

// blocks of n values. Types: kF32 kF16 kBF16 kQ4_0 kQ4_1 kQ8_0 kMxfp4; others are kUnsupported.
Status quantize_row(DType dtype, const float* in, int64_t n, std::byte* blocks);

}  // namespace isthmus::kernels
