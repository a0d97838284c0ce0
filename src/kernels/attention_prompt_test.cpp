// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/attention.h"
#include "kernels/kv_pages.h"
#include "kernels/scalar.h"
#include "kernels/test_util.h"

namespace isthmus::kernels {
namespace {

struct Case {
  int heads, kv_heads, dim, window;
  int64_t tokens;
};

// The largest relative distance (of the largest |v| in sight) that rounding weights and outputs to bf16
// explains: 2^-8 for each.
constexpr double kBf16Bound = 0x1p-7;
constexpr double kF32Bound = 4e-6;

// A paged cache of one layer whose pages lie in scrambled order and whose unused bytes are NaN.
template <typename T>
class Cache {
 public:
  Cache(const Case& c, uint32_t seed) : case_(c) {
    const int64_t pages = (c.tokens + kPageTokens - 1) / kPageTokens;
    const size_t page_bytes = 2 * sizeof(T) * c.kv_heads * kPageTokens * c.dim;
    bytes_.assign(page_bytes * (pages + 1), std::byte{0xff});
    for (int64_t p = 0; p < pages; ++p) table_.push_back(static_cast<int32_t>((p * 7 + 3) % pages));
    std::vector<bool> used(pages, false);
    for (int32_t& page : table_) {
      while (used[page]) page = static_cast<int32_t>((page + 1) % pages);
      used[page] = true;
    }
    view_ = {bytes_.data(), page_bytes, table_.data(),
             c.kv_heads,    c.dim,      sizeof(T) == 2 ? DType::kBF16 : DType::kF32};
    k_ = random_floats(c.tokens * c.kv_heads * c.dim, seed);
    v_ = random_floats(c.tokens * c.kv_heads * c.dim, seed + 1);
  }
  void append(int64_t first, int64_t n) {
    const int64_t row = static_cast<int64_t>(case_.kv_heads) * case_.dim;
    kv_append(view_, first, n, k_.data() + first * row, v_.data() + first * row);
  }
  const KvLayerView& view() const { return view_; }

 private:
  Case case_;
  std::vector<std::byte> bytes_;
  std::vector<int32_t> table_;
  KvLayerView view_;
  std::vector<float> k_, v_;
};

double number(bf16 v) {
  return to_float(v);
}
double number(float v) {
  return v;
}

template <typename T>
double score(const Case& c, const KvLayerView& kv, const T* q, int head, int64_t key) {
  const T* k = k_rows<T>(kv, key / kPageTokens, head) + key % kPageTokens * c.dim;
  double sum = 0;
  for (int d = 0; d < c.dim; ++d) sum += number(q[d]) * number(k[d]);
  return sum / std::sqrt(static_cast<double>(c.dim));
}

// The formula, in double, for one row and head.
template <typename T>
std::vector<double> reference(const Case& c, const KvLayerView& kv, const T* q, int head, int64_t position) {
  const int64_t from = c.window > 0 ? std::max<int64_t>(0, position - c.window + 1) : 0;
  double max = -1e300, total = 0;
  for (int64_t j = from; j <= position; ++j) max = std::max(max, score(c, kv, q, head, j));
  std::vector<double> out(c.dim, 0.0);
  for (int64_t j = from; j <= position; ++j) {
    const double p = std::exp(score(c, kv, q, head, j) - max);
    const T* v = v_rows<T>(kv, j / kPageTokens, head) + j % kPageTokens * c.dim;
    total += p;
    for (int d = 0; d < c.dim; ++d) out[d] += p * number(v[d]);
  }
  for (double& x : out) x /= total;
  return out;
}

template <typename T>
std::vector<T> convert(const std::vector<float>& in) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16s(in);
  else
    return in;
}

AttentionShape shape_of(const Case& c) {
  return {c.heads, 1.0f / std::sqrt(static_cast<float>(c.dim)), c.window};
}

// Whole prompt in chunks of the given sizes (the last one repeats).
template <typename T>
std::vector<T> run(const Case& c, const std::vector<T>& q, const std::vector<int64_t>& chunks) {
  Cache<T> cache(c, 11);
  const int64_t row = static_cast<int64_t>(c.heads) * c.dim;
  std::vector<T> out(q.size());
  size_t i = 0;
  for (int64_t first = 0; first < c.tokens; ++i) {
    const int64_t n = std::min(chunks[std::min(i, chunks.size() - 1)], c.tokens - first);
    cache.append(first, n);
    attention_prompt(cache.view(), shape_of(c), q.data() + first * row, first, n, out.data() + first * row);
    first += n;
  }
  return out;
}

template <typename T>
void expect_formula(const Case& c, double bound) {
  const int64_t row = static_cast<int64_t>(c.heads) * c.dim;
  const std::vector<T> q = convert<T>(random_floats(c.tokens * row, 21, 2.0f));
  const std::vector<T> got = run(c, q, {c.tokens});
  Cache<T> cache(c, 11);
  cache.append(0, c.tokens);
  for (int64_t r = 0; r < c.tokens; r += 1 + c.tokens / 37) {
    for (int h = 0; h < c.heads; ++h) {
      const int64_t at = r * row + h * c.dim;
      const std::vector<double> want =
          reference(c, cache.view(), q.data() + at, h / (c.heads / c.kv_heads), r);
      for (int d = 0; d < c.dim; ++d)
        ASSERT_NEAR(number(got[at + d]), want[d], bound * 4) << r << "," << h << "," << d;
    }
  }
}

const Case kCases[] = {
    {1, 1, 8, 0, 1},     {1, 1, 8, 0, 70},    {9, 3, 64, 0, 200},    {4, 4, 24, 0, 130},
    {8, 1, 72, 0, 150},  {5, 1, 80, 0, 65},   {2, 1, 128, 0, 140},   {4, 1, 256, 0, 129},
    {2, 2, 64, 1, 100},  {3, 1, 64, 17, 300}, {9, 3, 64, 100, 400},  {4, 1, 256, 64, 200},
    {2, 1, 16, 0, 1300}, {7, 1, 16, 63, 260}, {2, 1, 40, 512, 1500},
};

class PromptAttentionTest : public RungTest {};
INSTANTIATE_FOR_RUNGS(PromptAttentionTest);

TEST_P(PromptAttentionTest, Bf16IsTheFormula) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.heads << "/" << c.kv_heads << " x " << c.dim << ", window "
                                    << c.window);
    expect_formula<bf16>(c, kBf16Bound);
  }
}

TEST_P(PromptAttentionTest, F32IsTheFormula) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.heads << "/" << c.kv_heads << " x " << c.dim << ", window "
                                    << c.window);
    expect_formula<float>(c, kF32Bound);
  }
}

TEST_P(PromptAttentionTest, IsWithinTheBoundOfItsTwin) {
  const Case c{9, 3, 64, 0, 333};
  const std::vector<bf16> q = to_bf16s(random_floats(c.tokens * c.heads * c.dim, 5));
  Cache<bf16> cache(c, 11);
  cache.append(0, c.tokens);
  std::vector<bf16> got(q.size()), want(q.size());
  attention_prompt(cache.view(), shape_of(c), q.data(), 0, c.tokens, got.data());
  scalar::attention_prompt(cache.view(), shape_of(c), q.data(), 0, c.tokens, want.data());
  for (size_t i = 0; i < q.size(); ++i) ASSERT_NEAR(number(got[i]), number(want[i]), kBf16Bound * 4) << i;
}

// A cache of the same values in f32.
Cache<float> widened(const Case& c, const Cache<bf16>& half) {
  Cache<float> full(c, 11);
  full.append(0, c.tokens);
  for (int64_t token = 0; token < c.tokens; ++token) {
    for (int head = 0; head < c.kv_heads; ++head) {
      const int64_t page = token / kPageTokens, at = token % kPageTokens * c.dim;
      for (int d = 0; d < c.dim; ++d) {
        k_rows<float>(full.view(), page, head)[at + d] =
            to_float(k_rows<bf16>(half.view(), page, head)[at + d]);
        v_rows<float>(full.view(), page, head)[at + d] =
            to_float(v_rows<bf16>(half.view(), page, head)[at + d]);
      }
    }
  }
  return full;
}

// On rungs that multiply no bf16; the others have bounds, above.
TEST(PromptAttentionRungsTest, ABf16CacheGivesTheBitsOfItsValuesInF32) {
  const std::shared_ptr<void> restore(nullptr, [](void*) { set_rung(available_rungs().back()); });
  for (const Case& c : kCases) {
    Cache<bf16> half(c, 11);
    half.append(0, c.tokens);
    const Cache<float> full = widened(c, half);
    const std::vector<bf16> q = to_bf16s(random_floats(c.tokens * c.heads * c.dim, 41));
    std::vector<float> wide(q.size()), want(q.size());
    for (size_t i = 0; i < q.size(); ++i) wide[i] = to_float(q[i]);
    for (const Rung rung : available_rungs()) {
      if (multiplies_bf16(rung)) continue;
      ASSERT_TRUE(set_rung(rung));
      std::vector<bf16> got(q.size());
      attention_prompt(half.view(), shape_of(c), q.data(), 0, c.tokens, got.data());
      attention_prompt(full.view(), shape_of(c), wide.data(), 0, c.tokens, want.data());
      EXPECT_TRUE(same_bits(got, to_bf16s(want))) << rung_name(rung) << ", dim " << c.dim;
    }
  }
}

TEST(PromptAttentionRungsTest, RungsThatMultiplyAlikeGiveTheSameBits) {
  const Case c{9, 3, 64, 0, 200};
  const std::vector<bf16> q = to_bf16s(random_floats(c.tokens * c.heads * c.dim, 51));
  const std::shared_ptr<void> restore(nullptr, [](void*) { set_rung(available_rungs().back()); });
  std::vector<bf16> first[2];
  for (const Rung rung : available_rungs()) {
    if (rung == Rung::kScalar) continue;  // its sums have another order
    ASSERT_TRUE(set_rung(rung));
    std::vector<bf16>& other = first[multiplies_bf16(rung)];
    const std::vector<bf16> got = run(c, q, {c.tokens});
    if (other.empty()) other = got;
    EXPECT_TRUE(same_bits(got, other)) << rung_name(rung);
  }
}

// Cache slots past the chunk are NaN here, and every chunk plan leaves other slots unused.
template <typename T>
void expect_same_for_all_plans(const Case& c) {
  const std::vector<T> q = convert<T>(random_floats(c.tokens * c.heads * c.dim, 31));
  const std::vector<T> whole = run(c, q, {c.tokens});
  for (const T& v : whole) ASSERT_TRUE(std::isfinite(number(v)));
  const std::vector<int64_t> plans[] = {{1}, {3}, {64}, {512}, {5, 64}, {100, 1, 200}, {63, 1, 65}};
  for (int threads : {1, 2}) {
    WithThreads scope(threads);
    for (const std::vector<int64_t>& plan : plans) {
      EXPECT_TRUE(same_bits(run(c, q, plan), whole)) << plan[0] << "-token chunks, " << threads << " threads";
    }
  }
}

TEST_P(PromptAttentionTest, BitsDependOnNeitherChunksNorThreads) {
  for (const Case& c :
       {Case{9, 3, 64, 0, 700}, {3, 1, 24, 100, 300}, {2, 2, 80, 0, 150}, {4, 1, 64, 64, 260}}) {
    SCOPED_TRACE(testing::Message() << c.dim << ", window " << c.window);
    if (GetParam() == Rung::kScalar && c.tokens > 300) continue;  // the twin has no blocks to get wrong
    expect_same_for_all_plans<bf16>(c);
  }
  expect_same_for_all_plans<float>({6, 2, 40, 90, 200});
}

TEST_P(PromptAttentionTest, LargeAndEqualScoresStayFinite) {
  const Case c{2, 1, 16, 0, 130};
  std::vector<bf16> q(c.tokens * c.heads * c.dim, to_bf16(3000.0f));
  for (size_t i = 0; i < q.size(); i += 3) q[i] = to_bf16(-2500.0f);
  for (const bf16& v : run(c, q, {c.tokens})) ASSERT_TRUE(std::isfinite(number(v)));
}

TEST_P(PromptAttentionTest, AppendWritesOnlyItsRows) {
  const Case c{2, 2, 8, 0, 130};
  Cache<bf16> cache(c, 3), all(c, 3);
  all.append(0, 130);
  cache.append(60, 10);
  for (int64_t token : {0, 59, 60, 63, 64, 69, 70, 129}) {
    for (int head : {0, 1}) {
      const int64_t at = token % kPageTokens * c.dim;
      const bool written = token >= 60 && token < 70;
      for (int d = 0; d < c.dim; ++d) {
        const bf16 k = k_rows<bf16>(cache.view(), token / kPageTokens, head)[at + d];
        const bf16 v = v_rows<bf16>(cache.view(), token / kPageTokens, head)[at + d];
        EXPECT_EQ(k.bits,
                  written ? k_rows<bf16>(all.view(), token / kPageTokens, head)[at + d].bits : 0xffff);
        EXPECT_EQ(v.bits,
                  written ? v_rows<bf16>(all.view(), token / kPageTokens, head)[at + d].bits : 0xffff);
      }
    }
  }
}

}  // namespace
}  // namespace isthmus::kernels
