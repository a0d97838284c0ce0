// SPDX-License-Identifier: Apache-2.0
// The ISA rung: which compiled variant of the SIMD kernels runs. Chosen once from CPUID (the preferred one);
// tests force others. Same rung, same bits; what differs between rungs: docs/architecture.md. Any
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
// Does prompt attention multiply pairs of bf16 with an instruction, and on x86-64 oneDNN the matrices? Else
// bf16 values are multiplied as f32, as exactly and, without such an instruction, several times faster.
bool multiplies_bf16(Rung rung);
bool set_rung(Rung rung);  // false, and nothing changes, where it is not available

}  // namespace isthmus::kernels
