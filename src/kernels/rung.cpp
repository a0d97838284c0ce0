// SPDX-License-Identifier: Apache-2.0
#include "kernels/rung.h"

#include <algorithm>
#include <atomic>

#ifndef ISTHMUS_COMPUTE_SERIAL
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/simd.h"

#include "hwy/highway.h"
#include "hwy/targets.h"
#endif

namespace isthmus::kernels {
namespace {

#ifdef ISTHMUS_COMPUTE_SERIAL

std::vector<Rung> detect() {
  return {Rung::kScalar};
}
void select(Rung) {}

#else

#if HWY_ARCH_X86
// Intel's cores multiply bf16 at half the rate of f32 (kernels_bench on family 6, model 207) unless oneDNN
// can use AMX, which virtual machines may hide. Others are taken to be faster with it.
bool bf16_is_faster() {
  constexpr unsigned kAmxBf16 = 1u << 22;  // of EDX, CPUID leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool has_amx = __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & kAmxBf16) != 0;
  return !__builtin_cpu_is("intel") || has_amx;
}
#endif

std::vector<Rung> detect() {
#if HWY_ARCH_X86
  std::vector<Rung> rungs = {Rung::kScalar};
  const int64_t targets = hwy::SupportedTargets();
  if (targets & HWY_AVX2) rungs.push_back(Rung::kAvx2);
  if (!(targets & HWY_AVX3) || !__builtin_cpu_supports("avx512vnni")) return rungs;
  rungs.push_back(Rung::kAvx512);
  if (!__builtin_cpu_supports("avx512bf16")) return rungs;
  rungs.insert(bf16_is_faster() ? rungs.end() : rungs.end() - 1, Rung::kAvx512Bf16);
  return rungs;
#else
  return {Rung::kNeon};  // the only target compiled here, so there is nothing to choose
#endif
}

// An empty mask leaves the last entry of Highway's tables, which is the scalar pass.
void select(Rung rung) {
  int64_t target = 0;
  if (rung == Rung::kAvx2) target = HWY_AVX2;
  if (rung == Rung::kAvx512 || rung == Rung::kAvx512Bf16) target = HWY_AVX3;
  if (rung == Rung::kNeon) target = HWY_NEON;
  hwy::GetChosenTarget().Update(target);
}

#endif

std::atomic<Rung>& current() {
  static std::atomic<Rung> rung = [] {
    const Rung best = detect().back();
    select(best);
    return best;
  }();
  return rung;
}

}  // namespace

std::string_view rung_name(Rung rung) {
  switch (rung) {
    case Rung::kScalar:
      return "scalar";
    case Rung::kAvx2:
      return "avx2";
    case Rung::kAvx512:
      return "avx512-vnni";
    case Rung::kAvx512Bf16:
      return "avx512-vnni-bf16";
    case Rung::kNeon:  // names tell bits apart
      return multiplies_bf16(rung) ? "neon-bf16" : "neon";
  }
  return "?";
}

bool multiplies_bf16(Rung rung) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
  return rung == Rung::kNeon;
#else
  return rung == Rung::kAvx512Bf16;
#endif
}

Rung active_rung() {
  return current().load(std::memory_order_relaxed);
}

std::vector<Rung> available_rungs() {
  return detect();
}

bool set_rung(Rung rung) {
  const std::vector<Rung> rungs = detect();
  if (std::find(rungs.begin(), rungs.end(), rung) == rungs.end()) return false;
  current().store(rung, std::memory_order_relaxed);
  select(rung);
  return true;
}

}  // namespace isthmus::kernels
