// SPDX-License-Identifier: Apache-2.0
// Reference arithmetic against transformers, on tiny models of every family (tests/golden/*_tiny).
#include <gtest/gtest.h>

#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

constexpr float kTolerance = 1e-4F;  // of the goldens: f32 sums in another order

struct GoldenCase {
  const char* model;
  const char* config;
  const char* expected;
};

class Golden : public testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    const GoldenCase& g = GetParam();
    model_ = load(with_config(g.model, g.config), Arithmetic::kReferenceF32);
    ASSERT_NE(model_, nullptr);
    Result<Safetensors> expected = Safetensors::open(golden(g.model) / g.expected);
    ASSERT_TRUE(expected.ok()) << expected.status().to_string();
    expected_ = expected.take();
    Result<KvPool> pool = KvPool::create(model_->kv_shape(), 512);
    ASSERT_TRUE(pool.ok());
    pool_.emplace(pool.take());
    const Result<Safetensors> inputs = Safetensors::open(golden(g.model) / "expected.safetensors");
    ASSERT_TRUE(inputs.ok());
    ids_ = values<TokenId>(*inputs, "input_ids");
    ASSERT_EQ(ids_.size(), 200u);
  }

  std::unique_ptr<Model> model_;
  Safetensors expected_;
  std::optional<KvPool> pool_;
  std::vector<TokenId> ids_;
};

TEST_P(Golden, LogitsAtEveryListedPosition) {
  const std::vector<int32_t> positions = values<int32_t>(expected_, "positions");
  const std::vector<float> logits = values<float>(expected_, "logits");
  const size_t vocab = static_cast<size_t>(model_->config().vocab);
  ASSERT_GT(positions.size(), 5u);
  Sequence seq(*pool_);
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t have = static_cast<size_t>(seq.length()), p = static_cast<size_t>(positions[i]);
    prompt(*model_, std::span(ids_).subspan(have, p - have), seq, 64);
    const std::vector<float> got = step(*model_, ids_[p], seq);
    EXPECT_LE(largest_difference(got, std::span(logits).subspan(i * vocab, vocab)), kTolerance)
        << "position " << p;
  }
}

TEST_P(Golden, GreedyTokensInEveryChunking) {
  const std::vector<TokenId> greedy = values<TokenId>(expected_, "greedy_ids");
  const std::vector<float> logits = values<float>(expected_, "greedy_logits");
  const size_t vocab = static_cast<size_t>(model_->config().vocab);
  ASSERT_EQ(greedy.size(), 16u);
  for (const size_t chunk : {1u, 64u, 200u}) {
    Sequence seq(*pool_);
    prompt(*model_, std::span(ids_).first(199), seq, chunk);
    TokenId next = ids_.back();
    for (size_t i = 0; i <= greedy.size(); ++i) {
      const std::vector<float> got = step(*model_, next, seq);
      EXPECT_LE(largest_difference(got, std::span(logits).subspan(i * vocab, vocab)), kTolerance)
          << "step " << i;
      next = argmax(got);
      if (i == greedy.size()) break;
      ASSERT_EQ(next, greedy[i]) << "chunk " << chunk << ", step " << i;
    }
  }
}

class GoldenCache : public Golden {};

TEST_P(GoldenCache, RowsOfFirstAndLastLayer) {
  Sequence seq(*pool_);
  prompt(*model_, ids_, seq, 64);
  const size_t heads = static_cast<size_t>(model_->config().kv_heads),
               dim = static_cast<size_t>(model_->config().head_dim);
  for (const int layer : {0, 3}) {
    for (const KvPlane plane : {KvPlane::kKeys, KvPlane::kValues}) {
      const std::string name = plane == KvPlane::kKeys ? "keys" : "values";
      const std::vector<float> expected =
          values<float>(expected_, "cache." + std::to_string(layer) + "." + name);
      std::vector<float> rows(200 * heads * dim);  // [200, Hk, D]
      seq.read_rows(layer, plane, 0, 200, std::as_writable_bytes(std::span(rows)));
      std::vector<float> by_head(rows.size());  // [Hk, 200, D]
      for (size_t i = 0; i < rows.size(); ++i) {
        const size_t token = i / (heads * dim), head = i / dim % heads;
        by_head[(head * 200 + token) * dim + i % dim] = rows[i];
      }
      EXPECT_LE(largest_difference(by_head, expected), kTolerance) << "layer " << layer << " " << name;
    }
  }
}

std::string case_name(const testing::TestParamInfo<GoldenCase>& test) {
  const bool variant = std::string(test.param.config) != "config.json";
  return std::string(test.param.model) + (variant ? "_llama3rope" : "");
}

constexpr GoldenCase kLlama3Rope = {"llama_tiny", "config_llama3rope.json",
                                    "expected_llama3rope.safetensors"};
constexpr GoldenCase kPlain[] = {{"llama_tiny", "config.json", "expected.safetensors"},
                                 {"qwen2_tiny", "config.json", "expected.safetensors"},
                                 {"qwen3_tiny", "config.json", "expected.safetensors"}};

INSTANTIATE_TEST_SUITE_P(Tiny, Golden, testing::ValuesIn(kPlain), case_name);
INSTANTIATE_TEST_SUITE_P(Llama3Rope, Golden, testing::Values(kLlama3Rope), case_name);
INSTANTIATE_TEST_SUITE_P(Tiny, GoldenCache, testing::ValuesIn(kPlain),
                         case_name);  // the variant stores no cache

}  // namespace
}  // namespace isthmus
