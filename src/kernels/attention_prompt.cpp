// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/status.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/attention_tile.h"
#include "kernels/exp.h"
#include "kernels/kv_pages.h"
#include "kernels/parallel.h"
#include "kernels/row_kernels.h"
#include "kernels/rung.h"
#include "kernels/scalar.h"

namespace isthmus::kernels {

#ifdef ISTHMUS_COMPUTE_SERIAL

void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v) {
  scalar::kv_append(kv, first, n, k, v);
}

void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first,
                      int64_t n, bf16* out) {
  scalar::attention_prompt(kv, shape, q, first, n, out);
}
void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first,
                      int64_t n, float* out) {
  scalar::attention_prompt(kv, shape, q, first, n, out);
}

#else
namespace {

// Tiles packed at a time: 1,024 keys of one head (at D = 64 256 KiB of bf16, 512 of f32) stay in a core's
// second-level cache while all rows pass by, and scratch does not grow with the context.
constexpr int64_t kSegmentTiles = 16;
constexpr int kItemRows =
    192;  // rows of one work item: their accumulators stay in the second-level cache too
// Work worth waking the team for: tens of microseconds.
constexpr int64_t kPackedPerFork = 64 * 1024;
constexpr int64_t kProductsPerFork = 1024 * 1024;

struct Workspace {
  AlignedBuffer<uint32_t> keys, values;
  AlignedBuffer<float> acc, sum, max;
  AlignedBuffer<std::byte> q;
};

// Rows [first_row, first_row + count) of one KV head (row = (position - first) * group + head in group), all
// in one 64-aligned block of positions, so that they share their last tile.
struct Item {
  int head = 0;
  int64_t first_row = 0;
  int count = 0;
  int64_t first_tile = 0;
  int64_t last_tile = 0;
};

// T: values of the cache, queries and results; L: what the kernels multiply, T or f32.
template <typename T, typename L>
struct Call {
  const KvLayerView& kv;
  const AttentionShape& shape;
  const T* q;
  int64_t first, n;
  T* out;
  Workspace& work;
  int group;
  int padded;
  int64_t key_lanes, value_lanes;

  int64_t state_row(const Item& item) const { return item.head * n * group + item.first_row; }
  int64_t slot(int head, int64_t tile, int64_t segment) const {
    return head * kSegmentTiles + tile - segment;
  }
};

template <typename T, typename L>
std::vector<Item> make_items(const Call<T, L>& c) {
  std::vector<Item> items;
  for (int head = 0; head < c.kv.kv_heads; ++head) {
    for (int64_t block = c.first / kPageTokens; block <= (c.first + c.n - 1) / kPageTokens; ++block) {
      const int64_t from = std::max(block * kPageTokens, c.first);
      const int64_t to = std::min((block + 1) * kPageTokens, c.first + c.n);
      const int64_t end = (to - c.first) * c.group;
      for (int64_t row = (from - c.first) * c.group; row < end; row += kItemRows) {
        const int count = static_cast<int>(std::min<int64_t>(kItemRows, end - row));
        const int64_t position = c.first + row / c.group;
        items.push_back({head, row, count, first_visible(c.shape, position) / kPageTokens, block});
      }
    }
  }
  return items;
}

template <typename T, typename L>
void pack_one(const Call<T, L>& c, int head, int64_t tile, int64_t segment) {
  const int64_t slot = c.slot(head, tile, segment);
  const int valid = static_cast<int>(std::min<int64_t>(kPageTokens, c.first + c.n - tile * kPageTokens));
  const TileRows<T> rows{k_rows<T>(c.kv, tile, head), v_rows<T>(c.kv, tile, head), valid, c.kv.head_dim};
  pack_tile<L>(rows, c.work.keys.ensure(0) + slot * c.key_lanes,
               c.work.values.ensure(0) + slot * c.value_lanes);
}

// Copies the item's queries together and clears its running state.
template <typename T, typename L>
void begin_item(const Call<T, L>& c, const Item& item) {
  const int dim = c.kv.head_dim;
  const int64_t state = c.state_row(item);
  L* q = reinterpret_cast<L*>(c.work.q.ensure(0)) + state * dim;
  for (int i = 0; i < item.count; ++i, q += dim) {
    const int64_t row = item.first_row + i;
    const int64_t head = static_cast<int64_t>(item.head) * c.group + row % c.group;
    copy_as(c.q + (row / c.group * c.shape.heads + head) * dim, dim, q);
  }
  std::fill_n(c.work.acc.ensure(0) + state * c.padded, static_cast<int64_t>(item.count) * c.padded, 0.0f);
  std::fill_n(c.work.sum.ensure(0) + state * kSumLanes, item.count * kSumLanes, 0.0f);
  std::fill_n(c.work.max.ensure(0) + state, item.count, kNoScore);
}

template <typename T, typename L>
void finish_item(const Call<T, L>& c, const Item& item) {
  const int dim = c.kv.head_dim;
  const int64_t state = c.state_row(item);
  for (int i = 0; i < item.count; ++i) {
    const int64_t row = item.first_row + i;
    const int64_t head = static_cast<int64_t>(item.head) * c.group + row % c.group;
    finish_row(c.work.acc.ensure(0) + (state + i) * c.padded, c.work.sum.ensure(0) + (state + i) * kSumLanes,
               dim, c.out + (row / c.group * c.shape.heads + head) * dim);
  }
}

template <typename T, typename L>
void run_item(const Call<T, L>& c, const Item& item, int64_t segment) {
  const int64_t from = std::max(item.first_tile, segment);
  const int64_t to = std::min(item.last_tile, segment + kSegmentTiles - 1);
  if (from > to) return;
  if (from == item.first_tile) begin_item(c, item);
  const int64_t state = c.state_row(item);
  QueryRows<L> rows;
  rows.q = reinterpret_cast<const L*>(c.work.q.ensure(0)) + state * c.kv.head_dim;
  rows.acc = c.work.acc.ensure(0) + state * c.padded;
  rows.sum = c.work.sum.ensure(0) + state * kSumLanes;
  rows.max = c.work.max.ensure(0) + state;
  rows.first_position = c.first;
  rows.first_row = item.first_row;
  rows.count = item.count;
  rows.group = c.group;
  rows.head_dim = c.kv.head_dim;
  rows.scale = c.shape.scale * ExpConstants::kLog2e;
  rows.window = c.shape.window;
  for (int64_t tile = from; tile <= to; ++tile) {
    const int64_t slot = c.slot(item.head, tile, segment);
    fold_tile(rows, {c.work.keys.ensure(0) + slot * c.key_lanes,
                     c.work.values.ensure(0) + slot * c.value_lanes, tile * kPageTokens});
  }
  if (to == item.last_tile) finish_item(c, item);
}

template <typename L, typename T>
void attend(const KvLayerView& kv, const AttentionShape& shape, const T* q, int64_t first, int64_t n,
            T* out) {
  constexpr bool kIsBf16 = sizeof(L) == sizeof(bf16);
  static thread_local Workspace work;
  const int64_t rows = n * shape.heads;
  const Call<T, L> c{kv,
                     shape,
                     q,
                     first,
                     n,
                     out,
                     work,
                     shape.heads / kv.kv_heads,
                     padded_dim(kv.head_dim),
                     packed_key_lanes(kv.head_dim, kIsBf16),
                     packed_value_lanes(kv.head_dim, kIsBf16)};
  work.keys.ensure(static_cast<size_t>(kv.kv_heads * kSegmentTiles * c.key_lanes));
  work.values.ensure(static_cast<size_t>(kv.kv_heads * kSegmentTiles * c.value_lanes));
  work.acc.ensure(static_cast<size_t>(rows * c.padded));
  work.sum.ensure(static_cast<size_t>(rows * kSumLanes));
  work.max.ensure(static_cast<size_t>(rows));
  work.q.ensure(static_cast<size_t>(rows * kv.head_dim) * sizeof(L));

  const std::vector<Item> items = make_items(c);
  const int64_t last = (first + n - 1) / kPageTokens;
  for (int64_t segment = first_visible(shape, first) / kPageTokens; segment <= last;
       segment += kSegmentTiles) {
    const int64_t tiles = std::min(kSegmentTiles, last - segment + 1);
    const int64_t values = tiles * kPageTokens * kv.head_dim;
    parallel_items(kv.kv_heads * tiles, kv.kv_heads * values, kPackedPerFork, [&](int64_t i) {
      pack_one(c, static_cast<int>(i / tiles), segment + i % tiles, segment);
    });
    parallel_items(static_cast<int64_t>(items.size()), rows * values, kProductsPerFork,
                   [&](int64_t i) { run_item(c, items[i], segment); });
  }
}

void append_row(const KvLayerView& kv, int64_t token, const float* k, const float* v) {
  const int64_t at = token % kPageTokens * kv.head_dim;
  for (int h = 0; h < kv.kv_heads; ++h, k += kv.head_dim, v += kv.head_dim) {
    rows::round_to_bf16(k, kv.head_dim, k_rows<bf16>(kv, token / kPageTokens, h) + at);
    rows::round_to_bf16(v, kv.head_dim, v_rows<bf16>(kv, token / kPageTokens, h) + at);
  }
}

}  // namespace

void kv_append(const KvLayerView& kv, int64_t first, int64_t n, const float* k, const float* v) {
  if (kv.dtype != DType::kBF16) return scalar::kv_append(kv, first, n, k, v);
  const int64_t width = static_cast<int64_t>(kv.kv_heads) * kv.head_dim;
  for (int64_t r = 0; r < n; ++r) append_row(kv, first + r, k + r * width, v + r * width);
}

void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const bf16* q, int64_t first,
                      int64_t n, bf16* out) {
  ISTHMUS_CHECK(kv.dtype == DType::kBF16);
  if (active_rung() == Rung::kScalar) return scalar::attention_prompt(kv, shape, q, first, n, out);
  if (n > 0)
    (multiplies_bf16(active_rung()) ? attend<bf16, bf16> : attend<float, bf16>)(kv, shape, q, first, n, out);
}

void attention_prompt(const KvLayerView& kv, const AttentionShape& shape, const float* q, int64_t first,
                      int64_t n, float* out) {
  ISTHMUS_CHECK(kv.dtype == DType::kF32);
  if (active_rung() == Rung::kScalar) return scalar::attention_prompt(kv, shape, q, first, n, out);
  if (n > 0) attend<float>(kv, shape, q, first, n, out);
}

#endif  // ISTHMUS_COMPUTE_SERIAL

}  // namespace isthmus::kernels
