// SPDX-License-Identifier: Apache-2.0
#include "apps/value_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/block_format.h"

namespace isthmus {
namespace {

constexpr int64_t kChunk = 4096;

template <typename T>
void widen(const std::byte* in, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, in + i * static_cast<int64_t>(sizeof v), sizeof v);
    out[i] = static_cast<double>(v);
  }
}

void decode(DType dtype, const std::byte* in, int64_t n, double* out) {
  switch (dtype) {
    case DType::kI8:
      return widen<int8_t>(in, n, out);
    case DType::kU8:
    case DType::kF8E8M0:
      return widen<uint8_t>(in, n, out);
    case DType::kI32:
      return widen<int32_t>(in, n, out);
    case DType::kI64:
      return widen<int64_t>(in, n, out);
    default: {
      std::vector<float> values(static_cast<size_t>(n));
      kernels::dequantize_row(dtype, in, n, values.data());
      std::copy(values.begin(), values.end(), out);
    }
  }
}

}  // namespace

ValueDiff diff_values(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  const size_t size = dtype_info(dtype).block_bytes;
  ISTHMUS_CHECK(dtype_info(dtype).block_elements == 1 && a.size() == b.size() && a.size() % size == 0);
  ValueDiff d;
  d.values = static_cast<int64_t>(a.size() / size);
  double norm = 0, distance = 0;
  std::vector<double> x(kChunk), y(kChunk);
  for (int64_t first = 0; first < d.values; first += kChunk) {
    const int64_t n = std::min(kChunk, d.values - first);
    const std::byte* pa = a.data() + static_cast<size_t>(first) * size;
    const std::byte* pb = b.data() + static_cast<size_t>(first) * size;
    decode(dtype, pa, n, x.data());
    decode(dtype, pb, n, y.data());
    for (int64_t i = 0; i < n; ++i) {
      const auto at = static_cast<size_t>(i);
      const bool same = std::memcmp(pa + at * size, pb + at * size, size) == 0;
      d.equal_bits += same ? 1 : 0;
      if (!std::isfinite(x[at]) || !std::isfinite(y[at])) {
        d.non_finite += same ? 0 : 1;
        continue;
      }
      const double gap = std::abs(x[at] - y[at]);
      d.max_abs = std::max(d.max_abs, gap);
      distance += gap * gap;
      norm += x[at] * x[at];
    }
  }
  if (distance > 0) d.relative = norm > 0 ? std::sqrt(distance / norm) : 1;
  return d;
}

}  // namespace isthmus
