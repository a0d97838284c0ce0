// SPDX-License-Identifier: Apache-2.0
// Shared by the kernel tests: every rung in turn, thread counts, seeded values. Included by *_test.cpp only.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "kernels/parallel.h"
#include "kernels/rung.h"

namespace isthmus::kernels {

// A fixture run once per available rung; the best one is active again afterwards.
class RungTest : public ::testing::TestWithParam<Rung> {
 protected:
  void SetUp() override { ASSERT_TRUE(set_rung(GetParam())); }
  void TearDown() override { set_rung(available_rungs().back()); }
};

inline std::string rung_test_name(const ::testing::TestParamInfo<Rung>& info) {
  std::string name(rung_name(info.param));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

#define INSTANTIATE_FOR_RUNGS(suite) \
  INSTANTIATE_TEST_SUITE_P(Rungs, suite, ::testing::ValuesIn(available_rungs()), rung_test_name)

// Sets the number of compute threads for a scope (no effect in the serial build).
class WithThreads {
 public:
  explicit WithThreads(int count) : before_(thread_count()) { set(count); }
  ~WithThreads() { set(before_); }
  WithThreads(const WithThreads&) = delete;
  WithThreads& operator=(const WithThreads&) = delete;

 private:
  static void set([[maybe_unused]] int count) {
#ifndef ISTHMUS_COMPUTE_SERIAL
    omp_set_num_threads(count);
#endif
  }
  int before_;
};

inline std::vector<float> random_floats(int64_t count, uint32_t seed, float deviation = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = normal(engine);
  return out;
}

inline std::vector<bf16> to_bf16s(const std::vector<float>& in) {
  std::vector<bf16> out(in.size());
  for (size_t i = 0; i < in.size(); ++i) out[i] = to_bf16(in[i]);
  return out;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace isthmus::kernels
