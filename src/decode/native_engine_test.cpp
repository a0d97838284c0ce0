// SPDX-License-Identifier: Apache-2.0
#include "decode/native_engine.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/fs.h"
#include "base/hash.h"
#include "decode/block_rows.h"
#include "decode/memory_prefix_store.h"
#include "model/test_models.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

using namespace test_models;

constexpr int kBlock = 16;

std::vector<TokenId> prompt_of(size_t n, uint64_t seed) {
  std::vector<TokenId> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(xxh3_64({}, seed * 1000003 + i) % 256);
  return ids;
}

struct Outcome {
  std::vector<TokenId> tokens;
  GenerateStats stats;
  Status error;
};

class NativeEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = load(golden("llama_tiny")).release(); }
  static void TearDownTestSuite() { std::unique_ptr<Model>(model_).reset(); }

  void SetUp() override { restart({}); }

  void restart(NativeEngineOptions options) {
    engine_.reset();
    const KvShape shape = model_->kv_shape();
    if (!store_) {
      store_ = std::make_unique<MemoryPrefixStore>(
          native_layout(shape.layers, int64_t{shape.kv_heads} * shape.head_dim, kBlock, shape.dtype));
    }
    auto engine = NativeEngine::create(*model_, *store_, options);
    ASSERT_TRUE(engine.ok()) << engine.status().to_string();
    engine_ = engine.take();
  }
  void forget_blocks() {
    engine_.reset();
    store_.reset();
    restart({});
  }

  GenerateRequest request(std::vector<TokenId> prompt, int64_t max_tokens, bool use_cache = true) {
    GenerateRequest r;
    r.max_tokens = max_tokens;
    if (use_cache)
      r.prefix = store_->longest_prefix(prompt, static_cast<int64_t>(prompt.size()) - 1, nullptr);
    r.prompt = std::move(prompt);
    return r;
  }
  static Outcome drain(Result<std::unique_ptr<TokenStream>> stream) {
    Outcome run;
    if (!stream.ok()) {
      run.error = stream.status();
      return run;
    }
    while (true) {
      const auto event = (*stream)->next();
      if (!event.ok()) {
        run.error = event.status();
        return run;
      }
      if (!event->has_value()) break;
      run.tokens.push_back((*event)->id);
    }
    run.stats = (*stream)->stats();
    return run;
  }
  Outcome generate(GenerateRequest r) { return drain(engine_->generate(std::move(r))); }

  // The loop without an engine: one chunk, then one row a step.
  std::vector<TokenId> direct(const std::vector<TokenId>& prompt, int n) {
    KvPool pool = KvPool::create(model_->kv_shape(), 1024).take();
    Sequence seq(pool);
    EXPECT_TRUE(model_->prompt(std::span(prompt).first(prompt.size() - 1), seq, nullptr, {}).ok());
    std::vector<float> logits(static_cast<size_t>(model_->config().vocab));
    std::vector<TokenId> out = {prompt.back()};
    for (int i = 0; i < n; ++i) {
      const StepToken row{out.back(), &seq};
      EXPECT_TRUE(model_->step(std::span(&row, 1), logits.data()).ok());
      out.push_back(Sampler().sample(logits, {}, 0).id);
    }
    return {out.begin() + 1, out.end()};
  }

  static Model* model_;
  std::unique_ptr<MemoryPrefixStore> store_;
  std::unique_ptr<NativeEngine> engine_;
};
Model* NativeEngineTest::model_ = nullptr;

TEST_F(NativeEngineTest, EqualsTheDirectLoop) {
  for (const size_t n : {1u, 2u, 15u, 16u, 17u, 100u}) {
    const auto prompt = prompt_of(n, n);
    const Outcome run = generate(request(prompt, 24));
    ASSERT_TRUE(run.error.ok()) << run.error.to_string();
    EXPECT_EQ(run.tokens, direct(prompt, 24)) << n;
    EXPECT_EQ(run.stats.finish, FinishReason::kLength);
    EXPECT_EQ(run.stats.computed_tokens, static_cast<int64_t>(n));
    EXPECT_EQ(run.stats.generated_tokens, 24);
  }
}

TEST_F(NativeEngineTest, ACachedPrefixGivesTheSameBitsForEveryLength) {
  for (const size_t n : {2u, 15u, 16u, 17u, 31u, 33u, 48u, 70u}) {
    forget_blocks();
    const auto prompt = prompt_of(n, 40 + n);
    const Outcome cold = generate(request(prompt, 8));
    const Outcome warm = generate(request(prompt, 8));
    EXPECT_EQ(warm.tokens, cold.tokens);
    EXPECT_EQ(warm.stats.first_logits_xxh3, cold.stats.first_logits_xxh3);
    EXPECT_EQ(warm.stats.cached_tokens, static_cast<int64_t>(n) - 1);
    EXPECT_EQ(warm.stats.computed_tokens, 1);
  }
}

TEST_F(NativeEngineTest, ReusesAConversationAndItsOwnAnswer) {
  auto prompt = prompt_of(40, 3);
  const Outcome first = generate(request(prompt, 20));
  prompt.insert(prompt.end(), first.tokens.begin(), first.tokens.end());
  const auto more = prompt_of(10, 4);
  prompt.insert(prompt.end(), more.begin(), more.end());
  const Outcome second = generate(request(prompt, 4));
  EXPECT_EQ(second.stats.cached_tokens, 40 + 19);  // the last generated token's row was never computed
}

TEST_F(NativeEngineTest, TheBytesOfBlocksAreWhatIsUsed) {
  const auto prompt = prompt_of(50, 5);
  const Outcome cold = generate(request(prompt, 8));
  store_->corrupt_all();
  const Outcome changed = generate(request(prompt, 8));
  EXPECT_EQ(changed.stats.cached_tokens, 49);
  EXPECT_NE(changed.stats.first_logits_xxh3, cold.stats.first_logits_xxh3);
}

TEST_F(NativeEngineTest, ManyAtOnceEqualOneByOne) {
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::vector<TokenId>> expected;
  for (size_t i = 0; i < 20; ++i) {
    prompts.push_back(prompt_of(5 + 13 * i, 100 + i));
    expected.push_back(direct(prompts.back(), 12));
  }
  NativeEngineOptions small;
  small.chunk_tokens = 32;
  small.max_rows = 5;
  restart(small);
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (const auto& p : prompts) streams.push_back(engine_->generate(request(p, 12, false)).take());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Outcome run = drain(std::move(streams[i]));
    EXPECT_EQ(run.tokens, expected[i]) << i;
  }
  EXPECT_EQ(engine_->stats().active, 0);
}

TEST_F(NativeEngineTest, WaitsForRoomInsteadOfFailing) {
  NativeEngineOptions tight;
  tight.kv_tokens = 128;  // two pages: one request of this size at a time
  restart(tight);
  std::vector<std::vector<TokenId>> expected;  // before the engine uses the model
  for (size_t i = 0; i < 4; ++i) expected.push_back(direct(prompt_of(80, i), 8));
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (size_t i = 0; i < 4; ++i)
    streams.push_back(engine_->generate(request(prompt_of(80, i), 8, false)).take());
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(drain(std::move(streams[i])).tokens, expected[i]);
}

TEST_F(NativeEngineTest, CancelledRequestsDoNotWaitForRoom) {
  NativeEngineOptions tight;
  tight.kv_tokens = 512;
  restart(tight);
  auto running = engine_->generate(request(prompt_of(10, 1), 400, false)).take();
  ASSERT_TRUE(running->next().ok());
  auto big = engine_->generate(request(prompt_of(100, 2), 400, false)).take();  // does not fit beside it
  std::stop_source leave;
  GenerateRequest r = request(prompt_of(10, 3), 4, false);
  r.cancel = leave.get_token();
  auto behind = engine_->generate(std::move(r)).take();
  leave.request_stop();
  EXPECT_FALSE(drain(std::move(behind)).error.ok());  // ends while the first still runs
  EXPECT_EQ(engine_->stats().waiting, 1);
}

TEST_F(NativeEngineTest, StopTokensEndAndAreNotDelivered) {
  const auto prompt = prompt_of(30, 6);
  const auto all = direct(prompt, 20);
  GenerateRequest r = request(prompt, 20);
  r.stop_tokens = {all[7]};
  const Outcome run = generate(std::move(r));
  const auto end = std::find(all.begin(), all.end(), all[7]);
  EXPECT_EQ(run.tokens, std::vector<TokenId>(all.begin(), end));
  EXPECT_EQ(run.stats.finish, FinishReason::kStop);
}

TEST_F(NativeEngineTest, DroppingAStreamFreesItsPlace) {
  NativeEngineOptions tight;
  tight.kv_tokens = 512;
  restart(tight);
  for (int i = 0; i < 20; ++i) {
    auto stream = engine_->generate(request(prompt_of(100, 7), 400, false)).take();
    ASSERT_TRUE(stream->next().ok());  // it runs; then the reader leaves
  }
  const Outcome run = generate(request(prompt_of(100, 8), 400, false));
  EXPECT_EQ(run.stats.generated_tokens, 400);
  EXPECT_EQ(engine_->stats().active, 0);
}

TEST_F(NativeEngineTest, ACancelledRequestEndsAsCancelled) {
  std::stop_source source;
  GenerateRequest r = request(prompt_of(60, 9), 500);
  r.cancel = source.get_token();
  auto stream = engine_->generate(std::move(r)).take();
  ASSERT_TRUE(stream->next().ok());
  source.request_stop();
  const Outcome run = drain(std::move(stream));
  EXPECT_EQ(run.stats.finish, FinishReason::kCancelled);
  EXPECT_LT(run.stats.generated_tokens, 500);
}

TEST_F(NativeEngineTest, RefusesWhatCannotRun) {
  EXPECT_EQ(generate(request({}, 4, false)).error.code(), Code::kInvalidArgument);
  EXPECT_EQ(generate(request(prompt_of(5, 1), 0)).error.code(), Code::kInvalidArgument);
  const auto too_long = prompt_of(static_cast<size_t>(engine_->context_tokens()), 1);
  EXPECT_EQ(generate(request(too_long, 4, false)).error.code(), Code::kInvalidArgument);
  EXPECT_EQ(generate(request({5, 100000}, 4, false)).error.code(),
            Code::kInvalidArgument);                                   // not in the vocabulary
  EXPECT_EQ(generate(request(prompt_of(5, 1), 4)).tokens.size(), 4u);  // and still serves
  NativeEngineOptions small;  // a pool below the model's context is the context
  small.kv_tokens = 128;
  restart(small);
  EXPECT_EQ(engine_->context_tokens(), 128);
  EXPECT_EQ(generate(request(prompt_of(128, 1), 4, false)).error.code(), Code::kInvalidArgument);
  EXPECT_EQ(generate(request(prompt_of(100, 1), 1000)).tokens.size(), 28u);
  NativeEngineOptions full;
  full.max_waiting = 0;
  restart(full);
  EXPECT_EQ(generate(request(prompt_of(5, 1), 4)).error.code(), Code::kResourceExhausted);
}

// A model file whose last norm is not a number: every logit is NaN, and no token can be right.
TEST_F(NativeEngineTest, NonFiniteLogitsAreAnErrorNotAnAnswer) {
  const auto folder = with_config("llama_tiny", "config.json");
  Bytes bytes = PosixFs().read_file(folder / "model.safetensors").take();
  {
    const Safetensors file = Safetensors::parse(bytes, "test").take();
    const TensorView* norm = file.tensors().find("model.norm.weight");
    ASSERT_NE(norm, nullptr);
    std::memset(bytes.data() + (norm->data.data() - bytes.data()), 0xff, norm->data.size());
  }
  const std::span<const std::byte> parts[] = {bytes};
  PosixFs fs;
  ASSERT_TRUE(write_file_durably(fs, folder / "model.safetensors", parts).ok());
  const auto broken = load(folder);
  const auto engine = NativeEngine::create(*broken, *store_, {}).take();
  for (const double temperature : {0.0, 0.7}) {
    GenerateRequest r = request(prompt_of(40, 12), 4, false);
    r.sampling.temperature = temperature;
    const Outcome run = drain(engine->generate(std::move(r)));
    EXPECT_EQ(run.error.code(), Code::kCorrupt);
    EXPECT_TRUE(run.tokens.empty());
  }
}

TEST_F(NativeEngineTest, TheComputeLimitHolds) {
  NativeEngineOptions limited;
  limited.max_computed_prompt_tokens = 1;
  restart(limited);
  EXPECT_EQ(generate(request(prompt_of(40, 11), 4)).error.code(), Code::kUnavailable);
  restart({});
  (void)generate(request(prompt_of(40, 11), 4));
  restart(limited);
  EXPECT_EQ(generate(request(prompt_of(40, 11), 4)).tokens.size(), 4u);
}

}  // namespace
}  // namespace isthmus
