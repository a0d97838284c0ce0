// SPDX-License-Identifier: Apache-2.0
// What a decode step costs beside the model: scheduler, sampler, and rows on their way from and to blocks.
// Counted by scripts/instruction-counts.
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/counted_bench.h"
#include "base/test_data.h"
#include "decode/block_rows.h"
#include "decode/memory_prefix_store.h"
#include "decode/native_engine.h"
#include "decode/sampler.h"
#include "decode/session.h"

namespace isthmus {
namespace {

constexpr int kBlock = 64;
constexpr int kAnswer = 60;

std::vector<TokenId> prompt_of(size_t n, uint64_t seed) {
  std::vector<TokenId> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = static_cast<TokenId>(xxh3_64({}, seed * 1000003 + i) % 256);
  return ids;
}

// The engine asks for the layout before it starts its first request, and here waits until all have been
// submitted: from then on its thread takes the same turns in every run.
class GatedStore final : public PrefixStore {
 public:
  explicit GatedStore(PlaneLayout layout) : inner_(std::move(layout)) {}

  const PlaneLayout& layout() const override {
    MutexLock lock(mutex_);
    while (!open_) changed_.wait(mutex_);
    return inner_.layout();
  }
  const Digest& identity() const override { return inner_.identity(); }
  int64_t cached_tokens(std::span<const TokenId> ids, int64_t limit, const Source* only) override {
    return inner_.cached_tokens(ids, limit, only);
  }
  CachedPrefix longest_prefix(std::span<const TokenId> ids, int64_t limit, const Source* only) override {
    return inner_.longest_prefix(ids, limit, only);
  }
  int64_t storable_tokens(int64_t tokens) const override { return inner_.storable_tokens(tokens); }
  std::unique_ptr<RowSink> open_chain(ChainSpec spec) override { return inner_.open_chain(std::move(spec)); }

  void set_open(bool open) {
    MutexLock lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

 private:
  MemoryPrefixStore inner_;
  mutable Mutex mutex_;
  mutable CondVar changed_;
  bool open_ GUARDED_BY(mutex_) = false;
};

// Eight requests at once, most cut into several chunks. All are greedy: drawing tokens would cost more than
// the rest. Nobody reads the streams before all have ended, so that no reader has to be woken.
void run_together(NativeEngine& engine, GatedStore& store) {
  store.set_open(false);
  std::vector<std::unique_ptr<TokenStream>> streams;
  for (uint64_t i = 0; i < 8; ++i) {
    GenerateRequest request;
    request.prompt = prompt_of(60 + 20 * i, i);
    request.prefix = store.longest_prefix(request.prompt, std::ssize(request.prompt) - 1, nullptr);
    request.max_tokens = kAnswer;
    request.stop_tokens = {-1, -2};
    streams.push_back(engine.generate(std::move(request)).take());
  }
  store.set_open(true);
  while (engine.stats().active + engine.stats().waiting > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& stream : streams) {
    int tokens = 0;
    while (stream->next()->has_value()) ++tokens;
    ISTHMUS_CHECK(tokens == kAnswer);
  }
}

// The whole of the engine thread but the model's forward pass: bench/instructions.py knows both by their
// names. The second round finds the blocks of the first.
void engine_turns(benchmark::State& state) {
  const std::unique_ptr<Model> model = Model::load(test_data("llama_tiny"), {.max_positions = 1024}).take();
  const KvShape shape = model->kv_shape();
  for (auto _ : state) {
    GatedStore store(
        native_layout(shape.layers, int64_t{shape.kv_heads} * shape.head_dim, kBlock, shape.dtype));
    NativeEngineOptions options;
    options.chunk_tokens = 64;
    options.threads = 1;
    const auto engine = NativeEngine::create(*model, store, options).take();
    run_together(*engine, store);
    run_together(*engine, store);
    ISTHMUS_CHECK(engine->stats().prompt_tokens_cached > 500);
  }
}
BENCHMARK(engine_turns)->Iterations(1);

std::vector<float> logits_of(size_t vocab) {
  std::vector<float> logits(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    const double u = counter_uniform(1, i), v = counter_uniform(2, i);
    logits[i] = static_cast<float>(3 * std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307 * v));
  }
  return logits;
}

void sample(benchmark::State& state, const SamplingParams& params) {
  const std::vector<float> logits = logits_of(49'152);
  Sampler sampler;
  uint64_t index = 0;
  counted_iterations(state, [&] { benchmark::DoNotOptimize(sampler.sample(logits, params, ++index).id); });
}
void sample_greedy_scored(benchmark::State& state) {
  sample(state, {.top_logprobs = 5});
}
BENCHMARK(sample_greedy_scored)->Iterations(10);
void sample_top_p(benchmark::State& state) {
  sample(state, {.temperature = 0.7, .top_p = 0.95, .seed = 1});
}
BENCHMARK(sample_top_p)->Iterations(1);
void sample_top_k_min_p(benchmark::State& state) {
  sample(state, {.temperature = 0.7, .top_k = 40, .min_p = 0.02, .seed = 1});
}
BENCHMARK(sample_top_k_min_p)->Iterations(10);

// An answer's tokens from the engine's side of the channel to the reader's.
void pass_tokens(benchmark::State& state) {
  counted_iterations(state, [&] {
    StreamChannel channel;
    for (TokenId id = 0; id < 500; ++id) channel.push({id, -0.5f, {}});
    channel.finish({}, {});
    int tokens = 0;
    while (channel.pop()->has_value()) ++tokens;
    ISTHMUS_CHECK(tokens == 500);
  });
}
BENCHMARK(pass_tokens)->Iterations(10);

// 512 rows in the shape of SmolLM2's cache with a tenth of its layers: collected as blocks, restored from
// them.
void rows_and_blocks(benchmark::State& state) {
  constexpr int64_t kRows = 512;
  const KvShape shape{.layers = 3, .kv_heads = 3, .head_dim = 64};
  const PlaneLayout layout = native_layout(shape.layers, int64_t{3} * 64, kBlock, shape.dtype);
  KvPool pool = KvPool::create(shape, 2 * kRows).take();
  Sequence full(pool);
  ISTHMUS_CHECK(append_rows(layout, 0, kRows, Bytes(layout.block_bytes(0, kRows)), kRows, full).ok());
  counted_iterations(state, [&] {
    CachedPrefix prefix;
    for (int64_t a = 0; a < kRows; a += kBlock) {
      auto block = std::make_shared<Block>();
      block->first_token = a;
      block->ids.resize(kBlock);
      block->planes = collect_rows(layout, full, a, a + kBlock);
      prefix.blocks.push_back(std::move(block));
    }
    prefix.tokens = kRows - 10;
    Sequence restored(pool);
    ISTHMUS_CHECK(restore_rows(layout, prefix, restored).ok() && restored.length() == prefix.tokens);
  });
}
BENCHMARK(rows_and_blocks)->Iterations(10);

}  // namespace
}  // namespace isthmus
