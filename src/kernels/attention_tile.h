// SPDX-License-Identifier: Apache-2.0
// One tile of prompt attention: packing 64 keys and values of one head for the SIMD kernels, and folding such
// a tile into the running softmax of a block of query rows. attention_prompt.cpp decides which tiles and
// rows, in which order, on which thread. Full build only. A row's bits after a fold depend on the row and the
// tile alone, not on the other rows of the block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/float16.h"
#include "kernels/attention.h"
#include "kernels/row_kernels.h"

namespace isthmus::kernels {

// Accumulator and packed value rows are padded to whole 16-lane vectors.
inline int padded_dim(int head_dim) {
  return (head_dim + 15) / 16 * 16;
}

inline constexpr int kSumLanes = 16;  // the softmax denominator is kept as 16 partial sums
inline constexpr float kNoScore =
    -3.0e38f;  // initial maximum: below every score, yet finite, so that no difference is NaN

// A packed tile, in 32-bit lanes. Of bf16, on rungs that multiply it: a lane is a pair; keys [D/2][64] (pairs
// along D), values [32][padded D] (pairs of neighbouring keys). Of f32, into which a bf16 cache is widened on
// the others: keys [D][64], values [64][padded D]. Padding and slots past the sequence's end are zero.
inline int64_t packed_key_lanes(int head_dim, bool is_bf16) {
  return kPageTokens * (is_bf16 ? head_dim / 2 : head_dim);
}
inline int64_t packed_value_lanes(int head_dim, bool is_bf16) {
  return static_cast<int64_t>(padded_dim(head_dim)) * (is_bf16 ? kPageTokens / 2 : kPageTokens);
}

// Values as the lanes hold them: bf16 is widened where those are f32.
template <typename T, typename L>
void copy_as(const T* from, int64_t count, L* to) {
  if constexpr (std::is_same_v<T, L>) {
    std::copy_n(from, count, to);
  } else {
    rows::widen(from, count, to);
  }
}

template <typename T>
struct TileRows {
  const T* k = nullptr;  // [64, D], as v
  const T* v = nullptr;
  int valid = 0;  // rows that exist, the first ones
  int head_dim = 0;
};

// L: what the lanes hold.
template <typename L, typename T>
void pack_tile(const TileRows<T>& rows, uint32_t* keys, uint32_t* values);
template <>
void pack_tile<bf16>(const TileRows<bf16>& rows, uint32_t* keys, uint32_t* values);
template <>
void pack_tile<float>(const TileRows<bf16>& rows, uint32_t* keys, uint32_t* values);
template <>
void pack_tile<float>(const TileRows<float>& rows, uint32_t* keys, uint32_t* values);

struct PackedTile {
  const uint32_t* keys = nullptr;
  const uint32_t* values = nullptr;
  int64_t first_key = 0;  // absolute position, a multiple of 64
};

// Rows of one KV head, position-major: row i belongs to position `first_position + (first_row + i) / group`.
template <typename T>
struct QueryRows {
  const T* q = nullptr;  // [count, D]
  float* acc = nullptr;  // [count, padded D], zero before the first fold
  float* sum = nullptr;  // [count, kSumLanes], zero before the first fold
  float* max = nullptr;  // [count], kNoScore before the first fold
  int64_t first_position = 0;
  int64_t first_row = 0;
  int count = 0;
  int group = 1;
  int head_dim = 0;
  float scale = 0;  // times log2(e): weights are powers of two
  int window = 0;

  int64_t position(int i) const { return first_position + (first_row + i) / group; }
};

void fold_tile(const QueryRows<bf16>& rows, const PackedTile& tile);
void fold_tile(const QueryRows<float>& rows, const PackedTile& tile);

// out row i = acc / sum; the caller says where row i goes.
void finish_row(const float* acc, const float* sum, int head_dim, bf16* out);
void finish_row(const float* acc, const float* sum, int head_dim, float* out);

}  // namespace isthmus::kernels
