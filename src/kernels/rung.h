// SPDX-License-Identifier: Apache-2.0
// The ISA rung: which compiled variant of the SIMD kernels runs. Chosen once from CPUID (the preferred one);
// tests force others. Same rung, same bits; across rungs the bf16 and int8 sums may differ in order. Any
// thread may ask; set_rung only while no kernel runs. Not a tuning knob: there is no flag for it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace isthmus::kernels {

enum class Rung : uint8_t {
  kScalar,
  kAvx2,        // with FMA and F16C
  kAvx512,      // F, BW, DQ, VL and VNNI; a CPU that lacks one of them takes kAvx2
  kAvx512Bf16,  // BF16, too; only preferred where it multiplies bf16 faster than f32
  kNeon,        // with DOTPROD and BF16 where compiled for them
};

std::string_view rung_name(Rung rung);

Rung active_rung();
std::vector<Rung> available_rungs();  // of this build on this CPU, the preferred one last
// Does prompt arithmetic multiply pairs of bf16, with instructions of their own? Else bf16 values are
// multiplied as f32, which is as exact and, without such instructions, several times faster.
bool multiplies_bf16(Rung rung);
bool set_rung(Rung rung);  // false, and nothing changes, where it is not available

}  // namespace isthmus::kernels
