// SPDX-License-Identifier: Apache-2.0
// Scalar twin of the step_linear kernels: the definition of their bits. Integer dot products are exact; the
// f32 operations per output are, for each block (half block where scales are per 16) in ascending order of K,
//   acc = fma(scale * d, dot, acc)   and, for types with a minimum,   low = fma(-minimum, sum, low)
// and at the end acc + low. Plain types: four partial sums over k mod 4, added as (0 + 1) + (2 + 3).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/step_layout.h"

namespace isthmus::kernels {
namespace {

float half_value(const uint8_t* p) {
  f16 h;
  std::memcpy(&h.bits, p, 2);
  return to_float(h);
}

float e8m0_half_value(uint8_t e) {  // 2^(e - 128); the two smallest are subnormal
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

int code_at(int code_bits, const uint8_t* cells, int lane, int e) {
  const int group = e / 4, at = 4 * lane + e % 4;
  if (code_bits == 8) return cells[64 * group + at];
  int code = (cells[64 * (group % 4) + at] >> (4 * (group / 4))) & 15;
  if (code_bits == 5) code |= ((cells[256 + at] >> group) & 1) << 4;
  if (code_bits == 6) code |= ((cells[256 + 64 * (group / 4) + at] >> (2 * (group % 4))) & 3) << 4;
  return code;
}

struct BlockScale {
  float scale[2];  // of each half; equal unless kSuperHalf
  float minimum;
};

// `section`: scale section of the super-block; b: block within it.
BlockScale block_scale(StepScale kind, const uint8_t* section, int b, int lane) {
  if (kind == StepScale::kE8M0) {
    const float e = e8m0_half_value(section[lane]);
    return {{e, e}, 0};
  }
  const float d = half_value(section + 2 * lane);
  if (kind == StepScale::kF16) return {{d, d}, 0};
  if (kind == StepScale::kSuperHalf) {
    const auto* sc = reinterpret_cast<const int8_t*>(section + 32);
    return {{d * static_cast<float>(sc[32 * b + lane]), d * static_cast<float>(sc[32 * b + 16 + lane])}, 0};
  }
  const float second = half_value(section + 32 + 2 * lane);
  if (kind == StepScale::kF16Min) return {{d, d}, -second};
  const float scale = d * static_cast<float>(section[64 + 16 * b + lane]);
  return {{scale, scale}, second * static_cast<float>(section[192 + 16 * b + lane])};
}

int dot_range(const StepMatrix::Impl& w, const uint8_t* cells, int lane, const int8_t* q, int begin,
              int end) {
  const int bits = step_geometry(w.dtype).code_bits;
  int sum = 0;
  for (int e = begin; e < end; ++e) {
    const int code = code_at(bits, cells, lane, e);
    sum += q[e] * (w.dtype == DType::kMxfp4 ? kMxfp4Codes[code] : code);
  }
  return sum;
}

float lane_product(const StepMatrix::Impl& w, const uint8_t* tile, int lane, const StepActivation* in) {
  const StepGeometry g = step_geometry(w.dtype);
  const bool halves = g.scale == StepScale::kSuperHalf;
  float acc = 0, low = 0;
  for (int64_t i = 0; i < w.k / kStepBlock; ++i) {
    const StepActivation& a = in[i];
    const uint8_t* section = tile + static_cast<size_t>(i / g.super_blocks) * g.stride();
    const int b = static_cast<int>(i % g.super_blocks);
    const BlockScale s = block_scale(g.scale, section, b, lane);
    const uint8_t* cells = section + g.super_bytes + static_cast<size_t>(b) * g.block_bytes;
    const int first = dot_range(w, cells, lane, a.q, 0, halves ? 16 : 32) + a.init[0];
    acc = std::fma(s.scale[0] * a.d, static_cast<float>(first), acc);
    if (halves) {
      const int second = dot_range(w, cells, lane, a.q, 16, 32) + a.init[1];
      acc = std::fma(s.scale[1] * a.d, static_cast<float>(second), acc);
    }
    low = std::fma(-s.minimum, a.sum, low);
  }
  return step_has_minimum(g.scale) ? acc + low : acc;
}

float plain_weight(DType dtype, const uint8_t* tile, int64_t k, int lane) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(tile)[k * kStepLanes + lane];
  if (dtype == DType::kF16) return to_float(reinterpret_cast<const f16*>(tile)[k * kStepLanes + lane]);
  return to_float(reinterpret_cast<const bf16*>(tile)[(k / 2 * kStepLanes + lane) * 2 + k % 2]);
}

float plain_lane_product(const StepMatrix::Impl& w, const uint8_t* tile, int lane, const float* in) {
  float sum[4] = {0, 0, 0, 0};
  for (int64_t k = 0; k < w.padded_k; ++k)
    sum[k % 4] = std::fma(plain_weight(w.dtype, tile, k, lane), in[k], sum[k % 4]);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

namespace scalar {

void quantize_activations(const float* x, int64_t k, const StepGeometry& geometry, StepActivation* out) {
  const bool halves = geometry.scale == StepScale::kSuperHalf;
  for (int64_t i = 0; i < k / kStepBlock; ++i, x += kStepBlock, ++out) {
    // The order of magnitudes is the order of their bits, with infinity and NaN on top.
    uint32_t top = 0;
    for (int e = 0; e < kStepBlock; ++e) top = std::max(top, std::bit_cast<uint32_t>(x[e]) & 0x7fffffffu);
    const float largest = std::bit_cast<float>(top);
    *out = StepActivation{};
    if (top >= 0x7f800000u) {
      out->d = out->sum = std::numeric_limits<float>::quiet_NaN();
      continue;
    }
    if (largest < kStepSmallest) continue;
    const float inverse = 127.0f / largest;
    int sums[2] = {0, 0};
    for (int e = 0; e < kStepBlock; ++e) {
      out->q[e] = static_cast<int8_t>(std::nearbyint(x[e] * inverse));
      sums[e / 16] += out->q[e];
    }
    out->d = largest / 127.0f;
    out->sum = out->d * static_cast<float>(sums[0] + sums[1]);
    out->init[0] = -geometry.offset * (halves ? sums[0] : sums[0] + sums[1]);
    out->init[1] = halves ? -geometry.offset * sums[1] : 0;
  }
}

void step_tiles(const StepCall& c, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    const auto* tile = reinterpret_cast<const uint8_t*>(c.w->tile(t));
    for (int64_t column = t * kStepLanes; column < std::min((t + 1) * kStepLanes, c.w->n); ++column) {
      const int lane = static_cast<int>(column % kStepLanes);
      for (int64_t r = 0; r < c.rows; ++r) {
        const float result = c.w->quantized() ? lane_product(*c.w, tile, lane, c.quantized + r * c.stride)
                                              : plain_lane_product(*c.w, tile, lane, c.plain + r * c.stride);
        float& to = c.out[r * c.w->n + column];
        to = c.accumulate ? to + result : result;
      }
    }
  }
}

}  // namespace scalar
}  // namespace isthmus::kernels
