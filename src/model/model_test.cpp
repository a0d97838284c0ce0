// SPDX-License-Identifier: Apache-2.0
// What production arithmetic promises: bits that depend on the sequence alone, and closeness to the
// reference.
#include "model/model.h"

#include <gtest/gtest.h>

#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

// Rounding of weights, activations and cache to bf16 moves logits (of magnitude up to about 10) by less than
// this.
constexpr float kProductionBound = 0.5F;

struct RunBits {
  std::vector<std::byte> cache;
  std::vector<float> logits;
};

RunBits run_bits(Model& model, KvPool& pool, std::span<const TokenId> ids, size_t chunk) {
  Sequence seq(pool);
  prompt(model, ids.first(ids.size() - 1), seq, chunk);
  RunBits r;
  r.logits = step(model, ids.back(), seq);
  r.cache = cache_bytes(seq);
  return r;
}

class Production : public testing::TestWithParam<std::tuple<const char*, PromptWeights>> {
 protected:
  void SetUp() override {
    const auto& [name, form] = GetParam();
    directory_ = golden(name);
    Result<std::unique_ptr<Model>> loaded =
        Model::load(directory_, {.max_positions = 4096, .prompt_weights = form});
    ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
    model_ = loaded.take();
    pool_.emplace(KvPool::create(model_->kv_shape(), 4096).take());
    ids_ = counted_ids(261, model_->config().vocab, 3);
  }

  std::filesystem::path directory_;
  std::unique_ptr<Model> model_;
  std::optional<KvPool> pool_;
  std::vector<TokenId> ids_;
};

TEST_P(Production, BitsDoNotDependOnTheChunkPlan) {
  const RunBits whole = run_bits(*model_, *pool_, ids_, ids_.size());
  for (const size_t chunk : {1u, 7u, 64u, 200u}) {
    const RunBits r = run_bits(*model_, *pool_, ids_, chunk);
    EXPECT_TRUE(r.cache == whole.cache) << "chunk " << chunk;
    EXPECT_TRUE(r.logits == whole.logits) << "chunk " << chunk;
  }
}

TEST_P(Production, BitsDoNotDependOnTheResumePoint) {
  const RunBits whole = run_bits(*model_, *pool_, ids_, 64);
  for (const int64_t resume : {1, 63, 64, 100, 259}) {
    Sequence first(*pool_);
    prompt(*model_, std::span(ids_).first(260), first, 200);
    first.truncate(resume);
    // The rows travel as plane rows into another sequence, as blocks do.
    Sequence second(*pool_);
    ASSERT_TRUE(second.reserve(resume).ok());
    const KvShape shape = model_->kv_shape();
    std::vector<std::byte> rows(static_cast<size_t>(resume) * shape.plane_row_bytes());
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (const KvPlane plane : {KvPlane::kKeys, KvPlane::kValues}) {
        first.read_rows(layer, plane, 0, resume, rows);
        second.write_rows(layer, plane, 0, resume, rows);
      }
    }
    second.advance(resume);
    prompt(*model_, std::span(ids_).subspan(static_cast<size_t>(resume), 260 - static_cast<size_t>(resume)),
           second, 512);
    EXPECT_TRUE(step(*model_, ids_.back(), second) == whole.logits) << "resumed at " << resume;
    EXPECT_TRUE(cache_bytes(second) == whole.cache) << "resumed at " << resume;
  }
}

TEST_P(Production, StepRowsAreTheSameAloneAndTogether) {
  const size_t vocab = static_cast<size_t>(model_->config().vocab);
  const std::vector<int> lengths = {1, 5, 64, 70, 130};
  std::vector<std::vector<float>> alone;
  std::vector<Sequence> together;
  for (const int n : lengths) {
    const std::vector<TokenId> ids = counted_ids(n, model_->config().vocab, n);
    Sequence seq(*pool_);
    prompt(*model_, ids, seq, 64);
    for (const TokenId id : {11, 12, 13}) alone.push_back(step(*model_, id, seq));
    together.emplace_back(*pool_);
    prompt(*model_, ids, together.back(), 64);
  }
  // Three consecutive positions of each of five sequences, in one call.
  std::vector<StepToken> rows;
  for (Sequence& seq : together) {
    for (const TokenId id : {11, 12, 13}) rows.push_back({id, &seq});
  }
  std::vector<float> logits(rows.size() * vocab);
  const Status s = model_->step(rows, logits.data());
  ASSERT_TRUE(s.ok()) << s.to_string();
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto row = std::span(logits).subspan(r * vocab, vocab);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), alone[r].begin())) << "row " << r;
  }
  for (size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(together[i].length(), lengths[i] + 3);
}

TEST_P(Production, LogitsAreCloseToTheReference) {
  const std::unique_ptr<Model> reference = load(directory_, Arithmetic::kReferenceF32);
  ASSERT_NE(reference, nullptr);
  KvPool exact_pool = KvPool::create(reference->kv_shape(), 512).take();
  const RunBits exact = run_bits(*reference, exact_pool, ids_, 200);
  const RunBits got = run_bits(*model_, *pool_, ids_, 200);
  const float worst = largest_difference(got.logits, exact.logits);
  RecordProperty("largest_difference", std::to_string(worst));
  EXPECT_LE(worst, kProductionBound);
  EXPECT_GT(worst, 0.0F) << "production arithmetic rounds: no difference at all means that it did not run";
}

INSTANTIATE_TEST_SUITE_P(Tiny, Production,
                         testing::Combine(testing::Values("llama_tiny", "qwen2_tiny", "qwen3_tiny"),
                                          testing::Values(PromptWeights::kBf16, PromptWeights::kInt8,
                                                          PromptWeights::kFp8)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  std::string(prompt_weights_name(std::get<1>(test.param)));
                         });

// The forms differ from each other, but not in the rows that capture must reproduce from a layer's input: the
// first layer's K and V rows.
TEST(PromptForms, DifferInEverythingButKAndVProjections) {
  const std::vector<TokenId> ids = counted_ids(70, 256, 5);
  std::vector<RunBits> runs;
  std::vector<std::vector<std::byte>> first_layer;
  for (const PromptWeights form : {PromptWeights::kBf16, PromptWeights::kInt8, PromptWeights::kFp8}) {
    const auto model =
        Model::load(golden("llama_tiny"), {.max_positions = 100, .prompt_weights = form}).take();
    KvPool pool = KvPool::create(model->kv_shape(), 128).take();
    runs.push_back(run_bits(*model, pool, ids, 64));
    Sequence seq(pool);
    prompt(*model, ids, seq, 64);
    first_layer.emplace_back(70 * model->kv_shape().plane_row_bytes());
    seq.read_rows(0, KvPlane::kKeys, 0, 70, first_layer.back());
    EXPECT_EQ(first_layer.back(), first_layer.front());
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(runs[i].cache, runs[j].cache);
      EXPECT_NE(runs[i].logits, runs[j].logits);
    }
  }
}

class RecordingTap : public LayerTap {
 public:
  struct Rows {
    int layer;
    int64_t first, n;
    std::vector<float> x, k, v;
  };
  explicit RecordingTap(const ModelConfig& c) : config_(c) {}
  void on_layer_input(int layer, int64_t first, int64_t n, const float* x) override {
    rows.push_back({layer, first, n, std::vector<float>(x, x + n * config_.width), {}, {}});
  }
  void on_kv(int layer, int64_t first, int64_t n, const float* k, const float* v) override {
    ASSERT_EQ(rows.back().layer, layer);
    ASSERT_EQ(rows.back().first, first);
    rows.back().k.assign(k, k + n * config_.kv_width());
    rows.back().v.assign(v, v + n * config_.kv_width());
  }
  std::vector<Rows> rows;

 private:
  ModelConfig config_;
};

TEST(ModelTap, SeesEveryLayerOfEveryChunkAndChangesNothing) {
  const std::unique_ptr<Model> model = load(golden("llama_tiny"));
  ASSERT_NE(model, nullptr);
  KvPool pool = KvPool::create(model->kv_shape(), 1024).take();
  const std::vector<TokenId> ids = counted_ids(150, 256, 1);
  Sequence plain(pool), tapped(pool);
  prompt(*model, ids, plain, 64);
  RecordingTap tap(model->config());
  prompt(*model, ids, tapped, 64, &tap);
  EXPECT_TRUE(cache_bytes(plain) == cache_bytes(tapped));
  ASSERT_EQ(tap.rows.size(), 3u * 4u);
  const int64_t firsts[] = {0, 64, 128};
  for (size_t i = 0; i < tap.rows.size(); ++i) {
    const RecordingTap::Rows& r = tap.rows[i];
    EXPECT_EQ(r.layer, static_cast<int>(i % 4));
    EXPECT_EQ(r.first, firsts[i / 4]);
    // What the tap saw, rounded once, is what the cache holds.
    std::vector<bf16> keys(r.k.size());
    tapped.read_rows(r.layer, KvPlane::kKeys, r.first, r.n, std::as_writable_bytes(std::span(keys)));
    for (size_t j = 0; j < keys.size(); ++j)
      ASSERT_EQ(keys[j], to_bf16(r.k[j])) << "row " << i << " value " << j;
  }
}

TEST(ModelReference, StepRowsAreTheSameAloneAndTogether) {
  const std::unique_ptr<Model> model = load(golden("llama_tiny"), Arithmetic::kReferenceF32);
  ASSERT_NE(model, nullptr);
  KvPool pool = KvPool::create(model->kv_shape(), 1024).take();
  Sequence a(pool), b(pool), a_alone(pool), b_alone(pool);
  for (Sequence* seq : {&a, &a_alone}) prompt(*model, counted_ids(70, 256, 1), *seq, 64);
  for (Sequence* seq : {&b, &b_alone}) prompt(*model, counted_ids(9, 256, 2), *seq, 64);
  const StepToken rows[] = {{1, &a}, {2, &a}, {3, &b}, {4, &a}};
  std::vector<float> logits(4 * 256);
  ASSERT_TRUE(model->step(rows, logits.data()).ok());
  const std::vector<float> alone[] = {step(*model, 1, a_alone), step(*model, 2, a_alone),
                                      step(*model, 3, b_alone), step(*model, 4, a_alone)};
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_TRUE(std::equal(alone[r].begin(), alone[r].end(), logits.begin() + static_cast<long>(r) * 256))
        << "row " << r;
  }
}

TEST(ModelErrors, LeaveTheSequenceAsItWas) {
  Result<std::unique_ptr<Model>> loaded =
      Model::load(golden("llama_tiny"), {.chunk_tokens = 64, .max_positions = 100});
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  Model& model = **loaded;
  KvPool pool = KvPool::create(model.kv_shape(), 128).take();
  Sequence seq(pool);
  std::vector<float> logits(2 * 256);
  const std::vector<TokenId> good = counted_ids(90, 256, 1);
  ASSERT_TRUE(model.prompt(good, seq, nullptr, {}).ok());

  const std::vector<TokenId> bad_id = {5, 256}, negative = {-1}, too_many = counted_ids(11, 256, 1);
  EXPECT_EQ(model.prompt(bad_id, seq, nullptr, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(model.prompt(negative, seq, nullptr, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(model.prompt(too_many, seq, nullptr, {}).code(), Code::kInvalidArgument);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(model.prompt({good.data(), 5}, seq, nullptr, stop.get_token()).code(), Code::kCancelled);
  const StepToken bad_row{1000, &seq};
  EXPECT_EQ(model.step({&bad_row, 1}, logits.data()).code(), Code::kInvalidArgument);
  EXPECT_EQ(seq.length(), 90);

  Sequence other(pool);
  EXPECT_EQ(model.prompt(good, other, nullptr, {}).code(), Code::kResourceExhausted);
  const StepToken rows[] = {{3, &seq}, {4, &other}};
  EXPECT_EQ(model.step(rows, logits.data()).code(), Code::kResourceExhausted);
  EXPECT_EQ(seq.length(), 90);
  EXPECT_EQ(other.length(), 0);
  const StepToken fine{3, &seq};
  EXPECT_TRUE(model.step({&fine, 1}, logits.data()).ok()) << "and it still works";
}

}  // namespace
}  // namespace isthmus
