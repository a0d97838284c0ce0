// SPDX-License-Identifier: Apache-2.0
// attention_step's driver: cuts each row's context into splits, shares (row, split, KV head) items out over
// the OpenMP team, and combines the splits of a head in ascending order.
#include <algorithm>
#include <vector>

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/attention_split.h"
#include "kernels/kv_pages.h"
#include "kernels/step_linear.h"

namespace isthmus::kernels {
namespace {

// Grows (doubling) with the longest context a thread has met; no allocation otherwise.
thread_local std::vector<float> partial_scratch;

struct Plan {
  int64_t first_split[kMaxStepRows];       // of each row, by the window
  int64_t items_before[kMaxStepRows + 1];  // items of a row: its splits x KV heads, KV head fastest
};

Plan make_plan(const StepAttentionRow* rows, int n_rows, const AttentionShape& shape) {
  Plan plan;
  plan.items_before[0] = 0;
  for (int r = 0; r < n_rows; ++r) {
    plan.first_split[r] = first_visible(shape, rows[r].position) / kSplitTokens;
    const int64_t splits = rows[r].position / kSplitTokens + 1 - plan.first_split[r];
    plan.items_before[r + 1] = plan.items_before[r] + splits * rows[r].kv.kv_heads;
  }
  return plan;
}

struct Call {
  const StepAttentionRow* rows;
  int n_rows;
  AttentionShape shape;
  const float* q;
  float* out;
  Plan plan;
  int kv_heads, dim, group;
  float* partials;  // [items][group][D + 2]
};

void run_item(const Call& c, int64_t item) {
  int r = 0;
  while (item >= c.plan.items_before[r + 1]) ++r;
  const int64_t in_row = item - c.plan.items_before[r];
  const int64_t start = (c.plan.first_split[r] + in_row / c.kv_heads) * kSplitTokens;
  const int64_t position = c.rows[r].position;
  AttentionSplit split;
  split.kv = &c.rows[r].kv;
  split.kv_head = static_cast<int>(in_row % c.kv_heads);
  split.group = c.group;
  split.q = c.q + (static_cast<int64_t>(r) * c.shape.heads + split.kv_head * c.group) * c.dim;
  split.begin = std::max(start, first_visible(c.shape, position));
  split.end = std::min(start + kSplitTokens, position + 1);
  split.scale = c.shape.scale;
  split.out = c.partials + item * c.group * (c.dim + 2);
  if (item + 1 < c.plan.items_before[r + 1]) {
    split.next_kv_head = (split.kv_head + 1) % c.kv_heads;
    split.next_begin = split.next_kv_head == 0 ? start + kSplitTokens : start;
    split.next_end = position + 1;
  }
  step::attention_split(split);
}

// `head`: 0 .. n_rows * H.
void combine_head(const Call& c, int64_t head) {
  const int64_t r = head / c.shape.heads;
  const int h = static_cast<int>(head % c.shape.heads);
  const int64_t stride = static_cast<int64_t>(c.kv_heads) * c.group * (c.dim + 2);  // from split to split
  const int64_t splits = (c.plan.items_before[r + 1] - c.plan.items_before[r]) / c.kv_heads;
  const float* first = c.partials + c.plan.items_before[r] * c.group * (c.dim + 2) + h * (c.dim + 2);
  step::combine_splits({first, splits, stride, c.dim}, c.out + head * c.dim);
}

void run_batch(Call& c) {
  c.plan = make_plan(c.rows, c.n_rows, c.shape);
  const int64_t items = c.plan.items_before[c.n_rows];
  const size_t need = static_cast<size_t>(items * c.group * (c.dim + 2));
  if (partial_scratch.size() < need) partial_scratch.resize(std::max(need, 2 * partial_scratch.size()));
  c.partials = partial_scratch.data();
  const int64_t heads = static_cast<int64_t>(c.n_rows) * c.shape.heads;
#ifndef ISTHMUS_COMPUTE_SERIAL
#pragma omp parallel
#endif
  {
#ifndef ISTHMUS_COMPUTE_SERIAL
#pragma omp for schedule(static)
#endif
    for (int64_t i = 0; i < items; ++i) run_item(c, i);
#ifndef ISTHMUS_COMPUTE_SERIAL
#pragma omp for schedule(static)
#endif
    for (int64_t h = 0; h < heads; ++h) combine_head(c, h);
  }
}

}  // namespace

void attention_step(const StepAttentionRow* rows, int n_rows, const AttentionShape& shape, const float* q,
                    float* out) {
  for (int r = 0; r < n_rows; r += kMaxStepRows) {
    const KvLayerView& kv = rows[r].kv;
    ISTHMUS_CHECK(kv.dtype == DType::kBF16 || kv.dtype == DType::kF32);
    ISTHMUS_CHECK(kv.kv_heads > 0 && shape.heads % kv.kv_heads == 0);
    const int64_t offset = static_cast<int64_t>(r) * shape.heads * kv.head_dim;
    Call call{
        rows + r,    std::min(kMaxStepRows, n_rows - r), shape,  q + offset, out + offset, {}, kv.kv_heads,
        kv.head_dim, shape.heads / kv.kv_heads,          nullptr};
    run_batch(call);
  }
}

}  // namespace isthmus::kernels
