// SPDX-License-Identifier: Apache-2.0
#include "model/rope_table.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "model/parallel.h"

namespace isthmus {
namespace {

// A million positions of 64 pairs: a pack or model file that asks for more is refused before memory is
// touched.
constexpr size_t kMaxEntries = size_t{1} << 26;

// Llama 3.1: wavelengths beyond original / low are stretched by `factor`, those under original / high stay,
// linear between.
double llama3_frequency(const RopeConfig& rope, double frequency) {
  const double original = static_cast<double>(rope.original_max_positions);
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  if (wavelength < original / rope.high_freq_factor) return frequency;
  const double keep =
      (original / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - keep) * frequency / rope.factor + keep * frequency;
}

std::vector<double> frequencies(const RopeConfig& rope) {
  std::vector<double> f(static_cast<size_t>(rope.rotary_dim / 2));
  for (size_t i = 0; i < f.size(); ++i) {
    f[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / rope.rotary_dim);
    if (rope.scaling == RopeScaling::kLinear) f[i] /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) f[i] = llama3_frequency(rope, f[i]);
    if (rope.scaling == RopeScaling::kFactors) f[i] /= static_cast<double>(rope.freq_factors[i]);
  }
  return f;
}

}  // namespace

Result<RopeTable> RopeTable::create(const RopeConfig& rope, int64_t positions) {
  RopeTable t;
  t.half_ = rope.rotary_dim / 2;
  t.positions_ = positions;
  const size_t count = static_cast<size_t>(positions) * static_cast<size_t>(t.half_);
  if (count > kMaxEntries || !t.cos_.try_resize(count) || !t.sin_.try_resize(count)) {
    return Status(Code::kResourceExhausted,
                  "rope: no memory for " + std::to_string(positions) + " positions");
  }
  const std::vector<double> f = frequencies(rope);
  parallel_for(positions, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int i = 0; i < t.half_; ++i) {
        const double angle = static_cast<double>(p) * f[static_cast<size_t>(i)];
        t.cos_.data()[p * t.half_ + i] = static_cast<float>(std::cos(angle));
        t.sin_.data()[p * t.half_ + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
  return t;
}

}  // namespace isthmus
