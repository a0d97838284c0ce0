// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/attention.h"
#include "kernels/attention_split.h"
#include "kernels/kv_pages.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

// One sequence's cache; page order is shuffled, and slots past the end hold NaN.
struct Cache {
  std::vector<std::byte> bytes;
  std::vector<int32_t> table;
  KvLayerView view;
};

template <typename T>
T narrow(float f) {
  if constexpr (sizeof(T) == 4)
    return f;
  else
    return to_bf16(f);
}
float widen(float f) {
  return f;
}
float widen(bf16 b) {
  return to_float(b);
}

template <typename T>
void fill(Cache& c, int64_t tokens, uint32_t seed) {
  std::minstd_rand rng(seed);
  const auto value = [](std::minstd_rand& r) { return static_cast<float>(r() % 4001) * 1e-3f - 2.0f; };
  const int64_t pages = static_cast<int64_t>(c.table.size());
  for (int64_t t = 0; t < pages * kPageTokens; ++t) {
    for (int h = 0; h < c.view.kv_heads; ++h) {
      const int64_t at = t % kPageTokens * c.view.head_dim;
      for (int d = 0; d < c.view.head_dim; ++d) {
        const float k = t < tokens ? value(rng) : std::numeric_limits<float>::quiet_NaN();
        const float v = t < tokens ? value(rng) : std::numeric_limits<float>::quiet_NaN();
        k_rows<T>(c.view, t / kPageTokens, h)[at + d] = narrow<T>(k);
        v_rows<T>(c.view, t / kPageTokens, h)[at + d] = narrow<T>(v);
      }
    }
  }
}

Cache make_cache(int64_t tokens, int kv_heads, int dim, DType dtype, uint32_t seed) {
  Cache c;
  const int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  c.view.page_bytes = static_cast<size_t>(2 * kv_heads * kPageTokens * dim) * (dtype == DType::kF32 ? 4 : 2);
  c.bytes.resize(static_cast<size_t>(pages) * c.view.page_bytes);
  for (int64_t p = 0; p < pages; ++p) c.table.push_back(static_cast<int32_t>(pages - 1 - p));
  c.view.base = c.bytes.data();
  c.view.table = c.table.data();
  c.view.kv_heads = kv_heads;
  c.view.head_dim = dim;
  c.view.dtype = dtype;
  dtype == DType::kF32 ? fill<float>(c, tokens, seed) : fill<bf16>(c, tokens, seed);
  return c;
}

template <typename T>
std::vector<double> naive(const KvLayerView& kv, const AttentionShape& shape, int64_t position,
                          const float* q) {
  std::vector<double> out(static_cast<size_t>(shape.heads * kv.head_dim));
  const int64_t first = first_visible(shape, position);
  for (int h = 0; h < shape.heads; ++h) {
    const int group_head = h / (shape.heads / kv.kv_heads);
    std::vector<double> score;
    double largest = -1e300, total = 0;
    for (int64_t t = first; t <= position; ++t) {
      const T* k = k_rows<T>(kv, t / kPageTokens, group_head) + t % kPageTokens * kv.head_dim;
      double s = 0;
      for (int d = 0; d < kv.head_dim; ++d) s += static_cast<double>(q[h * kv.head_dim + d]) * widen(k[d]);
      score.push_back(s * shape.scale);
      largest = std::max(largest, score.back());
    }
    for (double& s : score) total += s = std::exp(s - largest);
    for (int64_t t = first; t <= position; ++t) {
      const T* v = v_rows<T>(kv, t / kPageTokens, group_head) + t % kPageTokens * kv.head_dim;
      for (int d = 0; d < kv.head_dim; ++d) {
        out[static_cast<size_t>(h * kv.head_dim + d)] +=
            score[static_cast<size_t>(t - first)] / total * widen(v[d]);
      }
    }
  }
  return out;
}

class AttentionStep : public RungTest {};
INSTANTIATE_FOR_RUNGS(AttentionStep);

struct Shape {
  int heads, kv_heads, dim, window;
};
constexpr Shape kShapes[] = {{9, 3, 64, 0},  {4, 4, 32, 0},   {8, 1, 128, 0}, {2, 1, 8, 0},    {3, 3, 80, 0},
                             {4, 2, 16, 40}, {9, 3, 64, 512}, {4, 1, 256, 0}, {6, 2, 48, 300}, {2, 2, 6, 0},
                             {5, 1, 64, 7},  {7, 1, 96, 0},   {2, 2, 128, 0}, {2, 1, 64, 0}};
constexpr int64_t kContexts[] = {1, 63, 64, 65, 256, 257, 511, 513};

template <typename T>
void expect_near_naive(DType dtype) {
  for (const Shape& s : kShapes) {
    const AttentionShape shape{s.heads, 1.0f / std::sqrt(static_cast<float>(s.dim)), s.window};
    for (const int64_t context : kContexts) {
      const Cache c = make_cache(context, s.kv_heads, s.dim, dtype, 1);
      const auto q = random_floats(s.heads * s.dim, 2, 2.0f);
      std::vector<float> out(q.size());
      const StepAttentionRow row{c.view, context - 1};
      attention_step(&row, 1, shape, q.data(), out.data());
      const auto expected = naive<T>(c.view, shape, context - 1, q.data());
      // Values are within 2: f32 scores of magnitude < 20 are off by < 2e-5, and so are the weights,
      // relatively.
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected[i], 2e-5)
            << "heads " << s.heads << " dim " << s.dim << " context " << context;
      }
    }
  }
}

TEST_P(AttentionStep, NearNaiveBf16) {
  expect_near_naive<bf16>(DType::kBF16);
}
TEST_P(AttentionStep, NearNaiveF32) {
  expect_near_naive<float>(DType::kF32);
}

TEST_P(AttentionStep, LongContext) {
  const Cache c = make_cache(4000, 3, 64, DType::kBF16, 3);
  const AttentionShape shape{9, 0.125f, 0};
  const auto q = random_floats(9 * 64, 4, 2.0f);
  std::vector<float> out(q.size());
  const StepAttentionRow row{c.view, 3999};
  attention_step(&row, 1, shape, q.data(), out.data());
  const auto expected = naive<bf16>(c.view, shape, 3999, q.data());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 2e-5);
}

TEST_P(AttentionStep, ARowHasTheSameBitsInAnyCompany) {
  const AttentionShape shape{9, 0.125f, 0};
  const int64_t contexts[] = {700, 1, 64, 513, 1200};
  std::vector<Cache> caches;
  for (const int64_t context : contexts) caches.push_back(make_cache(context, 3, 64, DType::kBF16, 5));
  // 20 rows, more than one batch: each sequence at several of its positions.
  std::vector<StepAttentionRow> rows;
  for (int i = 0; i < 20; ++i) {
    const size_t s = static_cast<size_t>(i) % 5;
    rows.push_back({caches[s].view, std::max<int64_t>(0, contexts[s] - 1 - i)});
  }
  const size_t width = 9 * 64;
  const auto q = random_floats(static_cast<int64_t>(rows.size() * width), 6, 2.0f);
  std::vector<float> together(q.size()), alone(q.size());
  attention_step(rows.data(), static_cast<int>(rows.size()), shape, q.data(), together.data());
  for (size_t r = 0; r < rows.size(); ++r) {
    attention_step(&rows[r], 1, shape, q.data() + r * width, alone.data() + r * width);
  }
  EXPECT_EQ(std::memcmp(together.data(), alone.data(), 4 * q.size()), 0);
}

TEST_P(AttentionStep, ThreadsDoNotMatter) {
  const AttentionShape shape{9, 0.125f, 0};
  const Cache c = make_cache(1500, 3, 64, DType::kBF16, 7);
  const StepAttentionRow rows[2] = {{c.view, 1499}, {c.view, 700}};
  const auto q = random_floats(2 * 9 * 64, 8, 2.0f);
  std::vector<float> one(q.size()), other(q.size());
  for (const int threads : {1, 2, 3}) {
    const WithThreads scope(threads);
    attention_step(rows, 2, shape, q.data(), (threads == 1 ? one : other).data());
    if (threads > 1) {
      EXPECT_TRUE(same_bits(one, other)) << threads;
    }
  }
}

TEST_P(AttentionStep, SplitEqualsTheScalarTwin) {
  for (const Shape& s : kShapes) {
    const Cache c = make_cache(513, s.kv_heads, s.dim, DType::kBF16, 9);
    const auto q = random_floats(s.heads * s.dim, 10, 2.0f);
    constexpr int64_t kRanges[][2] = {{0, 1},     {0, 256},   {256, 512}, {512, 513},
                                      {300, 301}, {257, 511}, {15, 33},   {100, 170}};
    for (const auto& range : kRanges) {
      AttentionSplit split;
      split.kv = &c.view;
      split.q = q.data();
      split.kv_head = s.kv_heads - 1;
      split.group = s.heads / s.kv_heads;
      split.begin = range[0];
      split.end = range[1];
      split.scale = 0.2f;
      std::vector<float> twin(static_cast<size_t>(split.group * (s.dim + 2))), out(twin.size());
      split.out = twin.data();
      scalar::attention_split(split);
      split.out = out.data();
      step::attention_split(split);
      ASSERT_TRUE(same_bits(out, twin)) << "heads " << s.heads << " dim " << s.dim << " from " << range[0];
    }
  }
}

TEST_P(AttentionStep, CombinationEqualsTheScalarTwin) {
  for (const int dim : {8, 16, 64, 80, 256}) {
    for (const int64_t splits : {1, 2, 30}) {
      const auto partials = random_floats(splits * 3 * (dim + 2), 11);
      const SplitPartials p{partials.data(), splits, 3 * (dim + 2), dim};
      std::vector<float> twin(static_cast<size_t>(dim)), out(twin.size());
      scalar::combine_splits(p, twin.data());
      step::combine_splits(p, out.data());
      EXPECT_TRUE(same_bits(out, twin)) << dim << " " << splits;
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels
