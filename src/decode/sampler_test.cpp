// SPDX-License-Identifier: Apache-2.0
#include "decode/sampler.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace isthmus {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

SamplingParams at(double temperature) {
  SamplingParams p;
  p.temperature = temperature;
  return p;
}

std::array<int, 5> histogram(const SamplingParams& base, int n) {
  Sampler s;
  std::array<int, 5> h{};
  SamplingParams p = base;
  for (int i = 0; i < n; ++i) {
    p.seed = static_cast<uint64_t>(i);
    ++h[static_cast<size_t>(s.sample(kLogits, p, 7).id)];
  }
  return h;
}

TEST(Sampler, GreedyTakesTheLowestIdOnTies) {
  EXPECT_EQ(Sampler().sample(kLogits, at(0), 0).id, 1);
}

TEST(Sampler, LogprobsAreOfTheWholeVocabulary) {
  SamplingParams p = at(0);
  p.top_logprobs = 3;
  p.top_k = 1;
  const TokenEvent e = Sampler().sample(kLogits, p, 0);
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x);
  EXPECT_NEAR(e.logprob, 3 - std::log(sum), 1e-6);
  ASSERT_EQ(e.top.size(), 3u);
  EXPECT_EQ(e.top[0].first, 1);
  EXPECT_EQ(e.top[1].first, 3);
  EXPECT_EQ(e.top[2].first, 2);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  const int n = 20000;
  const auto h = histogram(at(1), n);
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(kLogits[i]) / sum;
    EXPECT_NEAR(h[i], n * p, 5 * std::sqrt(n * p * (1 - p)) + 1) << i;
  }
}

TEST(Sampler, FiltersCut) {
  struct Row {
    const char* name;
    double top_p;
    int top_k;
    double min_p;
    std::array<bool, 5> possible;
  } rows[] = {
      {"top_k 2", 1, 2, 0, {false, true, false, true, false}},
      {"top_k 1", 1, 1, 0, {false, true, false, false, false}},
      {"top_p tiny", 1e-9, 0, 0, {false, true, false, false, false}},
      {"top_p 0.7", 0.7, 0, 0, {false, true, false, true, false}},
      {"min_p 0.3", 1, 0, 0.3, {false, true, true, true, false}},
      {"min_p 1", 1, 0, 1, {false, true, false, true, false}},
      {"none", 1, 0, 0, {true, true, true, true, true}},
  };
  for (const Row& r : rows) {
    SamplingParams p = at(1);
    p.top_p = r.top_p;
    p.top_k = r.top_k;
    p.min_p = r.min_p;
    const auto h = histogram(p, 5000);
    for (size_t i = 0; i < h.size(); ++i) EXPECT_EQ(h[i] > 0, r.possible[i]) << r.name << " token " << i;
  }
}

TEST(Sampler, DrawsDependOnSeedAndIndexOnly) {
  Sampler a;
  Sampler b;
  SamplingParams p = at(1);
  p.seed = 42;
  std::vector<TokenId> first;
  for (uint64_t i = 0; i < 50; ++i) first.push_back(a.sample(kLogits, p, i).id);
  for (uint64_t i = 50; i-- > 0;) EXPECT_EQ(b.sample(kLogits, p, i).id, first[i]);
}

}  // namespace
}  // namespace isthmus
