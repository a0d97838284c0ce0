// SPDX-License-Identifier: Apache-2.0
// clang-format off
// How a kernel file uses Highway: included first in every file that is compiled once per rung. It restricts
// Highway's targets to our rungs, and ISTHMUS_DISPATCH calls the active one. Full build only (the serial
// build has no Highway). Pattern of such a file:
//   #include "kernels/simd.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/x.cpp"
//   #include "hwy/foreach_target.h"
//   #include "hwy/highway.h"
//   #include "kernels/dot-inl.h"   // or any -inl.h; defines ISTHMUS_BEFORE_NAMESPACE
//   ISTHMUS_BEFORE_NAMESPACE();
//   namespace isthmus::kernels {
//   namespace HWY_NAMESPACE { namespace { void f() {...} } }   // anonymous: names repeat across files
//   ISTHMUS_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   HWY_EXPORT(f);
//   void f() { ISTHMUS_DISPATCH(f)(); }
//   #endif
//   }
// Where ISTHMUS_SCALAR_PASS is 1, f forwards to its scalar twin: one-lane Highway code is neither fast nor
// wanted.
// clang-format on
#pragma once

#ifndef ISTHMUS_COMPUTE_SERIAL

#include "kernels/rung.h"

// Instruction sets that are not a rung (rung.h), each because our kernels cannot be built for it; no test is
// disabled here. A CPU that has nothing better runs the scalar twins (NEON where it has SVE).
//   SSSE3, SSE4  no fused multiply-add, which the bits of the scalar twins need
//   AVX3_DL      its target string asks for AVX-VNNI, which CPUs with AVX-512 BF16 may lack, and has no BF16
//   SVE...       vectors of unknown length: no arrays of them, which every tile kernel holds
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)

// active_rung() comes first: left alone, Highway would choose by its own table, which does not know BF16.
#define ISTHMUS_DISPATCH(f) (::isthmus::kernels::active_rung(), HWY_DYNAMIC_DISPATCH(f))

#endif  // ISTHMUS_COMPUTE_SERIAL
