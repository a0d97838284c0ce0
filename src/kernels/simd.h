// SPDX-License-Identifier: Apache-2.0
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
//   namespace isthmus::kernels { namespace HWY_NAMESPACE { namespace { void f() {...} } } }   // anonymous:
//   names repeat across files ISTHMUS_AFTER_NAMESPACE(); #if HWY_ONCE ... HWY_EXPORT(f); void f() {
//   ISTHMUS_DISPATCH(f)(); } ... #endif
// Where ISTHMUS_SCALAR_PASS is 1, f forwards to its scalar twin: one-lane Highway code is neither fast nor
// wanted.
#pragma once

#ifndef ISTHMUS_COMPUTE_SERIAL

#include "kernels/rung.h"

// HWY_AVX3 rather than AVX3_DL: the latter's target string has AVX-VNNI, which our CPUs lack, and has no
// BF16.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE_256 | HWY_SVE2 | HWY_SVE2_128)

// active_rung() comes first: left alone, Highway would choose by its own table, which does not know BF16.
#define ISTHMUS_DISPATCH(f) (::isthmus::kernels::active_rung(), HWY_DYNAMIC_DISPATCH(f))

#endif  // ISTHMUS_COMPUTE_SERIAL
