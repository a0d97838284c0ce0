// SPDX-License-Identifier: Apache-2.0
#ifndef ISTHMUS_COMPUTE_SERIAL
#include "kernels/attention_tile.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/row_kernels.h"
#include "kernels/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_tile.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/exp-inl.h"

ISTHMUS_BEFORE_NAMESPACE();
namespace isthmus::kernels {
namespace HWY_NAMESPACE {
namespace {

#if !ISTHMUS_HAS_DOT2_BF16
// attention_prompt.cpp calls those for f32 instead.
void pack_values_bf16(const TileRows<bf16>&, uint32_t*) {}
void fold_tile_bf16(const QueryRows<bf16>&, const PackedTile&) {}
#endif
#if ISTHMUS_SCALAR_PASS
// attention_prompt.cpp calls the scalar twin of the whole instead.
void fold_tile_f32(const QueryRows<float>&, const PackedTile&) {}

#else

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kTileVectors = kPageTokens / kLanes;

// Register block: kMaxRows x kMaxVectors accumulators beside the operands (32 registers, or 16 on AVX2).
constexpr int kMaxRows = HWY_TARGET == HWY_AVX3 ? 6 : 4;
constexpr int kMaxVectors = HWY_TARGET == HWY_AVX2 ? 2 : 4;

#if ISTHMUS_HAS_DOT2_BF16
struct Bf16Lanes {
  using Element = bf16;
  static constexpr int kPerLane = 2;
  static HWY_INLINE VF fold(VU a, VU b, VF acc) { return dot2_bf16(DF(), a, b, acc); }
  static HWY_INLINE void store_weights(VF p, VF next, uint32_t* lanes, int key) {
    store_bf16_pair(DF(), p, next, reinterpret_cast<uint16_t*>(lanes) + key);
  }
};
#endif

struct F32Lanes {
  using Element = float;
  static constexpr int kPerLane = 1;
  static HWY_INLINE VF fold(VU a, VU b, VF acc) {
    return hn::MulAdd(hn::BitCast(DF(), a), hn::BitCast(DF(), b), acc);
  }
  static HWY_INLINE void store_weights(VF p, VF next, uint32_t* lanes, int key) {
    hn::StoreU(hn::BitCast(DU(), p), DU(), lanes + key);
    hn::StoreU(hn::BitCast(DU(), next), DU(), lanes + key + kLanes);
  }
};

// acc[R][NV] += sum over steps of broadcast(a[r][step]) x b[step][...]. a: R rows of `a_stride` lanes; b:
// rows of `b_stride`.
template <class L, int R, int NV>
HWY_INLINE void multiply_steps(const uint32_t* a, int a_stride, const uint32_t* b, int b_stride, int steps,
                               VF (&acc)[R][NV]) {
  for (int s = 0; s < steps; ++s, b += b_stride) {
    VU bv[NV];
    HWY_UNROLL(8)
    for (int v = 0; v < NV; ++v) bv[v] = hn::Load(DU(), b + v * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      const VU av = hn::Set(DU(), a[r * a_stride + s]);
      HWY_UNROLL(8)
      for (int v = 0; v < NV; ++v) acc[r][v] = L::fold(av, bv[v], acc[r][v]);
    }
  }
}

// scores[R][64] = q · keys * scale
template <class L, int R>
HWY_INLINE void score_rows(const QueryRows<typename L::Element>& rows, int row, const PackedTile& tile,
                           float* scores) {
  const int lanes = rows.head_dim / L::kPerLane;
  const auto* q = reinterpret_cast<const uint32_t*>(rows.q) + static_cast<int64_t>(row) * lanes;
  const VF scale = hn::Set(DF(), rows.scale);
  for (int key = 0; key < kPageTokens; key += kMaxVectors * kLanes) {
    VF acc[R][kMaxVectors];
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kMaxVectors; ++v) acc[r][v] = hn::Zero(DF());
    }
    multiply_steps<L, R, kMaxVectors>(q, lanes, tile.keys + key, kPageTokens, lanes, acc);
    HWY_UNROLL(8)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(8)
      for (int v = 0; v < kMaxVectors; ++v) {
        hn::Store(hn::Mul(acc[r][v], scale), DF(), scores + r * kPageTokens + key + v * kLanes);
      }
    }
  }
}

// Keys the row must not see become -infinity, whose exp is 0.
template <typename T>
void mask_row(const QueryRows<T>& rows, int row, const PackedTile& tile, float* scores) {
  const int64_t position = rows.position(row);
  const int64_t last = position - tile.first_key;
  const int64_t first = rows.window > 0 ? last - rows.window + 1 : 0;
  for (int64_t j = 0; j < kPageTokens; ++j) {
    if (j > last || j < first) scores[j] = -std::numeric_limits<float>::infinity();
  }
}

// Raises the rows' maxima to include `scores`; after: the new ones; shrink: what old sums must be multiplied
// by.
template <typename T, int R>
HWY_INLINE void raise_maxima(const QueryRows<T>& rows, int row, const float* scores, float* after,
                             float* shrink) {
  HWY_ALIGN float before[16] = {};
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    VF max = hn::Load(DF(), scores + r * kPageTokens);
    HWY_UNROLL(8)
    for (int v = 1; v < kTileVectors; ++v)
      max = hn::Max(max, hn::Load(DF(), scores + r * kPageTokens + v * kLanes));
    before[r] = rows.max[row + r];
    after[r] = std::max(before[r], hn::GetLane(hn::MaxOfLanes(DF(), max)));
    rows.max[row + r] = after[r];
  }
  for (int r = 0; r < R; r += kLanes) {
    hn::Store(exp2_lanes(DF(), hn::Sub(hn::Load(DF(), before + r), hn::Load(DF(), after + r))), DF(),
              shrink + r);
  }
}

// Online softmax of R rows: scores (in powers of two) become weights; shrink[r] rescales what was accumulated
// before.
template <class L, int R>
HWY_INLINE void softmax_rows(const QueryRows<typename L::Element>& rows, int row, const float* scores,
                             uint32_t* weights, float* shrink) {
  constexpr int kSumVectors = kSumLanes / kLanes;
  constexpr int kWeightLanes = kPageTokens / L::kPerLane;
  HWY_ALIGN float after[16] = {};
  raise_maxima<typename L::Element, R>(rows, row, scores, after, shrink);
  for (int r = 0; r < R; ++r) {
    float* sum = rows.sum + static_cast<int64_t>(row + r) * kSumLanes;
    const VF max = hn::Set(DF(), after[r]);
    VF total[kSumVectors];
    for (int v = 0; v < kSumVectors; ++v) {
      total[v] = hn::Mul(hn::Load(DF(), sum + v * kLanes), hn::Set(DF(), shrink[r]));
    }
    HWY_UNROLL(8)
    for (int v = 0; v < kTileVectors; v += 2) {
      const float* s = scores + r * kPageTokens + v * kLanes;
      const VF p = exp2_lanes(DF(), hn::Sub(hn::Load(DF(), s), max));
      const VF next = exp2_lanes(DF(), hn::Sub(hn::Load(DF(), s + kLanes), max));
      total[v % kSumVectors] = hn::Add(total[v % kSumVectors], p);
      total[(v + 1) % kSumVectors] = hn::Add(total[(v + 1) % kSumVectors], next);
      L::store_weights(p, next, weights + r * kWeightLanes, v * kLanes);
    }
    for (int v = 0; v < kSumVectors; ++v) hn::Store(total[v], DF(), sum + v * kLanes);
  }
}

// acc[R][columns] = acc * shrink + weights · values, for NV vectors of columns.
template <class L, int R, int NV>
HWY_INLINE void weigh_columns(const uint32_t* weights, const float* shrink, const uint32_t* values,
                              int stride, float* acc_out) {
  VF acc[R][NV];
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < NV; ++v) {
      acc[r][v] = hn::Mul(hn::Load(DF(), acc_out + r * stride + v * kLanes), hn::Set(DF(), shrink[r]));
    }
  }
  constexpr int kSteps = kPageTokens / L::kPerLane;
  multiply_steps<L, R, NV>(weights, kSteps, values, stride, kSteps, acc);
  HWY_UNROLL(8)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(8)
    for (int v = 0; v < NV; ++v) hn::Store(acc[r][v], DF(), acc_out + r * stride + v * kLanes);
  }
}

template <class L, int R>
void fold_rows(const QueryRows<typename L::Element>& rows, int row, const PackedTile& tile, bool masked) {
  HWY_ALIGN float scores[R * kPageTokens];
  HWY_ALIGN uint32_t weights[R * kPageTokens / L::kPerLane];
  HWY_ALIGN float shrink[16];
  score_rows<L, R>(rows, row, tile, scores);
  for (int r = 0; masked && r < R; ++r) mask_row(rows, row + r, tile, scores + r * kPageTokens);
  softmax_rows<L, R>(rows, row, scores, weights, shrink);
  const int stride = padded_dim(rows.head_dim);
  float* acc = rows.acc + static_cast<int64_t>(row) * stride;
  int d = 0;
  for (; d + kMaxVectors * kLanes <= stride; d += kMaxVectors * kLanes) {
    weigh_columns<L, R, kMaxVectors>(weights, shrink, tile.values + d, stride, acc + d);
  }
  for (; d < stride; d += kLanes) weigh_columns<L, R, 1>(weights, shrink, tile.values + d, stride, acc + d);
}

template <class L>
void fold_block(const QueryRows<typename L::Element>& rows, const PackedTile& tile) {
  const int64_t last_key = tile.first_key + kPageTokens - 1;
  int row = 0;
  while (row < rows.count) {
    const int left = rows.count - row;
    const int take = left >= kMaxRows ? kMaxRows : left >= 3 ? 3 : 1;
    const int64_t low = rows.position(row);
    const int64_t high = rows.position(row + take - 1);
    const bool masked = low < last_key || (rows.window > 0 && tile.first_key <= high - rows.window);
    if (take == kMaxRows)
      fold_rows<L, kMaxRows>(rows, row, tile, masked);
    else if (take == 3)
      fold_rows<L, 3>(rows, row, tile, masked);
    else
      fold_rows<L, 1>(rows, row, tile, masked);
    row += take;
  }
}

void fold_tile_f32(const QueryRows<float>& rows, const PackedTile& tile) {
  fold_block<F32Lanes>(rows, tile);
}

#if ISTHMUS_HAS_DOT2_BF16
void fold_tile_bf16(const QueryRows<bf16>& rows, const PackedTile& tile) {
  fold_block<Bf16Lanes>(rows, tile);
}

// Pairs of neighbouring value rows, low half first; rows past `valid` count as zero.
void pack_values_bf16(const TileRows<bf16>& rows, uint32_t* values) {
  const hn::Rebind<uint16_t, DF> du16;
  const int head_dim = rows.head_dim;
  const int stride = padded_dim(head_dim);
  const auto* bits = reinterpret_cast<const uint16_t*>(rows.v);
  for (int key = 0; key < kPageTokens; key += 2, values += stride) {
    const uint16_t* even = bits + static_cast<int64_t>(key) * head_dim;
    const uint16_t* odd = even + head_dim;
    const int present = std::clamp(rows.valid - key, 0, 2);
    int d = 0;
    for (; present == 2 && d + kLanes <= head_dim; d += kLanes) {
      const VU low = hn::PromoteTo(DU(), hn::LoadU(du16, even + d));
      const VU high = hn::PromoteTo(DU(), hn::LoadU(du16, odd + d));
      hn::Store(hn::Or(low, hn::ShiftLeft<16>(high)), DU(), values + d);
    }
    for (; d < head_dim; ++d) {
      values[d] = (present > 0 ? even[d] : 0u) | (present > 1 ? static_cast<uint32_t>(odd[d]) << 16 : 0u);
    }
    for (; d < stride; ++d) values[d] = 0;
  }
}
#endif  // ISTHMUS_HAS_DOT2_BF16

#endif  // ISTHMUS_SCALAR_PASS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace isthmus::kernels
ISTHMUS_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isthmus::kernels {
namespace {

HWY_EXPORT(pack_values_bf16);
HWY_EXPORT(fold_tile_bf16);
HWY_EXPORT(fold_tile_f32);

// What a lane of a tile holds of an array of f32, or of pairs of bf16.
uint32_t lane(uint32_t bits) {
  return bits;
}
uint32_t lane(bf16 value) {
  return static_cast<uint32_t>(value.bits) << 16;
}

// [64][lanes] to [lanes][64].
template <typename In>
void transpose_keys(const In* in, int valid, int lanes, uint32_t* keys) {
  for (int i = 0; i < lanes; ++i) {
    uint32_t* out = keys + static_cast<int64_t>(i) * kPageTokens;
    for (int key = 0; key < valid; ++key) out[key] = lane(in[static_cast<int64_t>(key) * lanes + i]);
    for (int key = valid; key < kPageTokens; ++key) out[key] = 0;
  }
}

template <typename T>
void copy_values(const TileRows<T>& rows, uint32_t* values) {
  const int stride = padded_dim(rows.head_dim);
  auto* out = reinterpret_cast<float*>(values);
  for (int key = 0; key < kPageTokens; ++key, out += stride) {
    const int count = key < rows.valid ? rows.head_dim : 0;
    copy_as(rows.v + static_cast<int64_t>(key) * rows.head_dim, count, out);
    std::fill_n(out + count, stride - count, 0.0f);
  }
}

}  // namespace

template <>
void pack_tile<bf16>(const TileRows<bf16>& rows, uint32_t* keys, uint32_t* values) {
  transpose_keys(reinterpret_cast<const uint32_t*>(rows.k), rows.valid, rows.head_dim / 2, keys);
  ISTHMUS_DISPATCH(pack_values_bf16)(rows, values);
}
template <>
void pack_tile<float>(const TileRows<bf16>& rows, uint32_t* keys, uint32_t* values) {
  transpose_keys(rows.k, rows.valid, rows.head_dim, keys);
  copy_values(rows, values);
}
template <>
void pack_tile<float>(const TileRows<float>& rows, uint32_t* keys, uint32_t* values) {
  transpose_keys(reinterpret_cast<const uint32_t*>(rows.k), rows.valid, rows.head_dim, keys);
  copy_values(rows, values);
}

void fold_tile(const QueryRows<bf16>& rows, const PackedTile& tile) {
  ISTHMUS_DISPATCH(fold_tile_bf16)(rows, tile);
}
void fold_tile(const QueryRows<float>& rows, const PackedTile& tile) {
  ISTHMUS_DISPATCH(fold_tile_f32)(rows, tile);
}

namespace {

void store(float v, float* y) {
  *y = v;
}
void store(float v, bf16* y) {
  *y = to_bf16(v);
}

template <typename T>
void finish(const float* acc, const float* sum, int head_dim, T* out) {
  float total = 0;
  for (int j = 0; j < kSumLanes; ++j) total += sum[j];
  const float inv = 1.0f / total;
  for (int d = 0; d < head_dim; ++d) store(acc[d] * inv, &out[d]);
}

}  // namespace

void finish_row(const float* acc, const float* sum, int head_dim, bf16* out) {
  finish(acc, sum, head_dim, out);
}
void finish_row(const float* acc, const float* sum, int head_dim, float* out) {
  finish(acc, sum, head_dim, out);
}

}  // namespace isthmus::kernels
#endif  // HWY_ONCE
#endif  // ISTHMUS_COMPUTE_SERIAL
