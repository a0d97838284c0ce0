// SPDX-License-Identifier: Apache-2.0
#include "prefill/native_prompt_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "model/test_models.h"
#include "prefill/producer.h"

namespace isthmus {
namespace {

using namespace test_models;

// Keeps the K and V rows it is shown. The hook runs on the engine thread after each chunk.
class RowsCapture final : public Capture {
 public:
  explicit RowsCapture(int layers) : rows_(static_cast<size_t>(layers)) {}

  void on_layer_input(int, int64_t, int64_t, const float*) override {}
  void on_kv(int layer, int64_t first, int64_t n, const float* k, const float* v) override {
    if (first_ < 0) first_ = first;
    std::vector<float>& to = rows_[static_cast<size_t>(layer)];
    for (int64_t i = 0; i < n; ++i) {
      to.insert(to.end(), k + i * kRow, k + (i + 1) * kRow);
      to.insert(to.end(), v + i * kRow, v + (i + 1) * kRow);
    }
  }
  Status chunk_done(int64_t position) override {
    ++chunks;
    return on_chunk ? on_chunk(position) : Status();
  }
  bool has_room() const override { return room; }
  Status seal() override { return {}; }
  int64_t shipped_tokens() const override { return 0; }

  int64_t first() const { return first_; }
  // Of layer `layer`, rows of positions [from, ...).
  std::vector<float> rows(int layer, int64_t from) const {
    const std::vector<float>& all = rows_[static_cast<size_t>(layer)];
    return {all.begin() + (from - first_) * 2 * kRow, all.end()};
  }

  std::function<Status(int64_t)> on_chunk;
  std::atomic<bool> room = true;
  std::atomic<int> chunks = 0;

 private:
  static constexpr int64_t kRow = 16;  // Hk * D of llama_tiny
  int64_t first_ = -1;
  std::vector<std::vector<float>> rows_;
};

class NativePromptEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = load(golden("llama_tiny")).release(); }
  static void TearDownTestSuite() { std::unique_ptr<Model>(model_).reset(); }

  static std::unique_ptr<NativePromptEngine> engine(PromptEngineOptions options = {}) {
    if (options.kv_tokens == 0) options.kv_tokens = 1024;
    if (options.chunk_tokens == 512) options.chunk_tokens = 32;
    auto made = NativePromptEngine::create(*model_, sha256("producer"), std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.take();
  }
  static std::vector<TokenId> ids(int n, int seed) { return counted_ids(n, model_->config().vocab, seed); }
  static RowsCapture capture() { return RowsCapture(model_->config().layers); }

  // What a fresh engine shows of this prompt.
  static void expect_rows_of_a_fresh_run(const std::vector<TokenId>& prompt, const RowsCapture& got) {
    RowsCapture alone(model_->config().layers);
    const auto report = engine()->run(prompt, 0, alone, {});
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    for (int layer = 0; layer < model_->config().layers; ++layer) {
      EXPECT_TRUE(got.rows(layer, got.first()) == alone.rows(layer, got.first())) << "layer " << layer;
    }
  }
  static void wait_until(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::yield();
  }

  static Model* model_;
};
Model* NativePromptEngineTest::model_ = nullptr;

TEST_F(NativePromptEngineTest, ComputesAllButTheLastToken) {
  const auto e = engine();
  RowsCapture c(model_->config().layers);
  const auto report = e->run(ids(101, 1), 0, c, {});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->computed_tokens, 100);
  EXPECT_EQ(report->reused_tokens, 0);
  EXPECT_GT(report->engine_s, 0);
  EXPECT_EQ(c.chunks, 4);
  EXPECT_EQ(c.rows(0, 0).size(), 100u * 2 * 16);
  EXPECT_EQ(e->producer(), sha256("producer"));
  const PromptEngineStats stats = e->stats();
  EXPECT_EQ(stats.tokens_computed, 100u);
  EXPECT_GT(stats.tokens_per_s, 0);
  EXPECT_EQ(stats.cached_prompts, 1);
  EXPECT_EQ(stats.free_pages, 16 - 2);
}

TEST_F(NativePromptEngineTest, RunsInterleaveWithoutChangingRows) {
  const auto e = engine();
  const std::vector<TokenId> a_ids = ids(200, 1), b_ids = ids(180, 2);
  RowsCapture a(model_->config().layers), b(model_->config().layers);
  std::string order;  // engine thread only
  std::future<Result<PrefillReport>> b_report;
  a.on_chunk = [&](int64_t) {
    order += 'a';
    if (order == "a") {
      b_report = std::async(std::launch::async, [&] { return e->run(b_ids, 0, b, {}); });
      wait_until([&] { return e->stats().waiting == 1; });
    }
    return Status();
  };
  b.on_chunk = [&](int64_t) {
    order += 'b';
    return Status();
  };
  ASSERT_TRUE(e->run(a_ids, 0, a, {}).ok());
  ASSERT_TRUE(b_report.get().ok());
  EXPECT_EQ(order, "aabababababab");
  expect_rows_of_a_fresh_run(a_ids, a);
  expect_rows_of_a_fresh_run(b_ids, b);
}

TEST_F(NativePromptEngineTest, ReusesItsOwnPrefixUpToResumeFrom) {
  const std::vector<TokenId> first = ids(201, 1);
  std::vector<TokenId> second(first.begin(), first.begin() + 150);
  const std::vector<TokenId> other = ids(80, 9);
  second.insert(second.end(), other.begin(), other.end());
  struct Row {
    const char* name;
    const std::vector<TokenId>* prompt;
    int64_t resume_from, reused;
  };
  const Row rows[] = {{"nothing may be skipped", &second, 0, 0}, {"up to resume_from", &second, 64, 64},
                      {"whole pages only", &second, 100, 64},    {"up to the difference", &second, 229, 128},
                      {"the same prompt", &first, 200, 192},     {"another prompt", &other, 79, 0}};
  for (const Row& r : rows) {
    const auto e = engine();
    RowsCapture warm = capture(), c = capture();
    ASSERT_TRUE(e->run(first, 0, warm, {}).ok());
    const auto report = e->run(*r.prompt, r.resume_from, c, {});
    ASSERT_TRUE(report.ok()) << r.name;
    EXPECT_EQ(report->reused_tokens, r.reused) << r.name;
    EXPECT_EQ(report->computed_tokens, static_cast<int64_t>(r.prompt->size()) - 1 - r.reused) << r.name;
    EXPECT_EQ(c.first(), r.reused) << r.name;
    expect_rows_of_a_fresh_run(*r.prompt, c);
  }
}

TEST_F(NativePromptEngineTest, AConversationIsKeptOnce) {
  const auto e = engine();
  const std::vector<TokenId> all = ids(300, 4);
  for (const int turn : {100, 200, 300}) {
    RowsCapture c = capture();
    const std::vector<TokenId> prompt(all.begin(), all.begin() + turn);
    const auto report = e->run(prompt, turn - 1, c, {});
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->reused_tokens, (std::max(0, turn - 101)) / 64 * 64);
  }
  EXPECT_EQ(e->stats().cached_prompts, 1);
  EXPECT_EQ(e->stats().free_pages, 16 - 5);
}

TEST_F(NativePromptEngineTest, NothingLeftToComputeIsARun) {
  const auto e = engine();
  RowsCapture warm = capture(), c = capture();
  const std::vector<TokenId> prompt = ids(129, 1);
  ASSERT_TRUE(e->run(prompt, 0, warm, {}).ok());
  const auto report = e->run(prompt, 128, c, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->reused_tokens, 128);
  EXPECT_EQ(report->computed_tokens, 0);
}

TEST_F(NativePromptEngineTest, CancelStopsWithinAChunkAndFreesPages) {
  const auto e = engine();
  RowsCapture c = capture();
  std::stop_source stop;
  c.on_chunk = [&](int64_t position) {
    if (position == 64) stop.request_stop();
    return Status();
  };
  EXPECT_EQ(e->run(ids(400, 1), 0, c, stop.get_token()).status().code(), Code::kCancelled);
  EXPECT_EQ(c.chunks, 2);
  EXPECT_EQ(e->stats().free_pages, 16);
  EXPECT_EQ(e->stats().cached_prompts, 0);
  EXPECT_EQ(e->stats().running, 0);
  RowsCapture again = capture();
  EXPECT_EQ(e->run(ids(50, 1), 0, again, stop.get_token()).status().code(), Code::kCancelled);
  EXPECT_EQ(again.chunks, 0);
  EXPECT_TRUE(e->run(ids(50, 1), 0, again, {}).ok());
}

TEST_F(NativePromptEngineTest, ARunWithoutRoomDoesNotHoldOthersUp) {
  const auto e = engine();
  RowsCapture full = capture(), free = capture(), given_up = capture();
  full.room = false;
  given_up.room = false;
  std::stop_source stop;
  const std::vector<TokenId> prompt = ids(100, 1);
  auto waiting = std::async(std::launch::async, [&] { return e->run(prompt, 0, full, {}); });
  auto cancelled =
      std::async(std::launch::async, [&] { return e->run(prompt, 0, given_up, stop.get_token()); });
  wait_until([&] { return e->stats().running == 2; });
  EXPECT_TRUE(e->run(ids(90, 2), 0, free, {}).ok());
  EXPECT_EQ(full.chunks, 0);
  stop.request_stop();
  EXPECT_EQ(cancelled.get().status().code(), Code::kCancelled);
  full.room = true;
  ASSERT_TRUE(waiting.get().ok());
  EXPECT_EQ(full.chunks, 4);
}

TEST_F(NativePromptEngineTest, APromptWaitsForPagesOfAnother) {
  const auto e = engine({.kv_tokens = 320});
  RowsCapture a = capture(), b = capture();
  std::string order;
  std::future<Result<PrefillReport>> b_report;
  const std::vector<TokenId> b_ids = ids(300, 2);
  a.on_chunk = [&](int64_t) {
    if (order.empty()) {
      b_report = std::async(std::launch::async, [&] { return e->run(b_ids, 0, b, {}); });
      wait_until([&] { return e->stats().waiting == 1; });
    }
    order += 'a';
    return Status();
  };
  b.on_chunk = [&](int64_t) {
    order += 'b';
    return Status();
  };
  ASSERT_TRUE(e->run(ids(300, 1), 0, a, {}).ok());
  ASSERT_TRUE(b_report.get().ok());
  EXPECT_EQ(order, "aaaaaaaaaabbbbbbbbbb");
  EXPECT_EQ(e->stats().cached_prompts, 1);  // the first made room for the second
  expect_rows_of_a_fresh_run(b_ids, b);
}

TEST_F(NativePromptEngineTest, MemoryFloorEndsARunWhereItIs) {
  std::atomic<int> looks = 0;
  const auto e = engine({.memory_floor_bytes = 1000, .available_memory = [&]() -> uint64_t {
                           return ++looks <= 3 ? 1000 : 999;  // one at the start, one a chunk
                         }});
  RowsCapture c = capture();
  const auto report = e->run(ids(200, 1), 0, c, {});
  ASSERT_TRUE(report.ok()) << report.status().to_string();
  EXPECT_EQ(report->computed_tokens, 64);
  EXPECT_EQ(c.chunks, 2);
  EXPECT_EQ(e->stats().cached_prompts, 0);
  const Status refused = e->run(ids(200, 1), 0, c, {}).status();
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_NE(refused.message().find("memory floor"), std::string::npos);
}

TEST_F(NativePromptEngineTest, TheCapturesErrorEndsTheRun) {
  const auto e = engine();
  RowsCapture c = capture();
  c.on_chunk = [](int64_t) { return Status(Code::kUnavailable, "the receiver is gone"); };
  EXPECT_EQ(e->run(ids(200, 1), 0, c, {}).status().code(), Code::kUnavailable);
  EXPECT_EQ(c.chunks, 1);
  EXPECT_EQ(e->stats().free_pages, 16);
}

TEST_F(NativePromptEngineTest, RefusesBadCalls) {
  const auto e = engine();
  EXPECT_EQ(e->max_tokens(), 1025);
  RowsCapture c = capture();
  std::vector<TokenId> bad_id = ids(10, 1);
  bad_id[3] = model_->config().vocab;
  struct Row {
    std::vector<TokenId> prompt;
    int64_t resume_from;
    const char* message;
  };
  const Row rows[] = {{ids(1, 1), 0, "ids"},      {{}, 0, "ids"},
                      {ids(1026, 1), 0, "1025"},  {ids(10, 1), -1, "resume_from"},
                      {ids(10, 1), 10, "0 to 9"}, {bad_id, 0, "token id"}};
  for (const Row& r : rows) {
    const auto report = e->run(r.prompt, r.resume_from, c, {});
    EXPECT_EQ(report.status().code(), Code::kInvalidArgument) << r.message;
    EXPECT_NE(report.status().message().find(r.message), std::string::npos) << report.status().message();
  }
  EXPECT_EQ(e->stats().free_pages, 16);
}

TEST_F(NativePromptEngineTest, EndsRunsWhenItIsDestroyed) {
  auto e = engine();
  RowsCapture c = capture();
  c.room = false;
  const std::vector<TokenId> prompt = ids(100, 1);
  NativePromptEngine* const raw = e.get();
  auto report = std::async(std::launch::async, [&] { return raw->run(prompt, 0, c, {}); });
  wait_until([&] { return raw->stats().running == 1; });
  e.reset();
  EXPECT_EQ(report.get().status().code(), Code::kUnavailable);
}

TEST_F(NativePromptEngineTest, ProducerNamesWhatChangesBits) {
  const ModelConfig& config = model_->config();
  const ProducerFacts facts{sha256("weights"), "prompt-bf16-2", "avx512-vnni"};
  const Identity one = producer_identity(config, facts);
  EXPECT_EQ(one.digest, producer_identity(config, facts).digest);
  EXPECT_NE(one.digest, producer_identity(config, {sha256("other"), "prompt-bf16-2", "avx512-vnni"}).digest);
  EXPECT_NE(one.digest,
            producer_identity(config, {sha256("weights"), "prompt-int8-2", "avx512-vnni"}).digest);
  EXPECT_NE(one.digest, producer_identity(config, {sha256("weights"), "prompt-bf16-2", "avx2"}).digest);
  ModelConfig rope = config;
  rope.rope.theta *= 2;
  EXPECT_NE(one.digest, producer_identity(rope, facts).digest);
}

}  // namespace
}  // namespace isthmus
