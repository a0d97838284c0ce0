// SPDX-License-Identifier: Apache-2.0
// The native prompt engine: one thread owns the model, the paged cache and the prefix cache; callers of run()
// queue and wait. Each turn computes one chunk of one prompt, in rotation, skipping those whose capture has
// no room: so a short prompt waits for a chunk of each long one, not for all of it. Computes no logits.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/sync.h"
#include "flow/prompt_engine.h"
#include "model/model.h"
#include "prefill/prompt_cache.h"

namespace isthmus {

struct PromptEngineOptions {
  int64_t kv_tokens = 0;                // of the pool, running and cached prompts together; 0: four contexts
  int64_t chunk_tokens = kChunkTokens;  // rows between two looks at cancellation, room and the other prompts
  size_t max_waiting = 64;              // prompts beyond the running ones, then kResourceExhausted
  // A prompt that runs while less memory is available stops where it is (its capture can be sealed there);
  // one that has not begun is refused. 0: no floor.
  uint64_t memory_floor_bytes = 0;
  std::function<uint64_t()> available_memory = nullptr;  // empty: the kernel's figure
};

struct PromptEngineStats {
  int running = 0;
  int waiting = 0;
  uint64_t prompts = 0;
  uint64_t tokens_computed = 0;
  uint64_t tokens_reused = 0;
  double tokens_per_s = 0;  // over the last chunks; 0: none yet
  int64_t cached_prompts = 0;
  int64_t free_pages = 0;
};

class NativePromptEngine final : public PromptEngine {
 public:
  // `model` outlives the engine and is used by nobody else. producer: digest of producer_identity().
  static Result<std::unique_ptr<NativePromptEngine>> create(Model& model, const Digest& producer,
                                                            PromptEngineOptions options);
  // Running prompts end with kUnavailable; their callers may return after this does.
  ~NativePromptEngine() override;

  // Rows of a prompt that ended well stay for later ones. A report of fewer than T - 1 tokens: memory floor.
  Result<PrefillReport> run(std::span<const TokenId> ids, int64_t resume_from, Capture& capture,
                            std::stop_token cancel) override;
  const Digest& producer() const override { return producer_; }

  int64_t max_tokens() const;  // of a prompt, the last token included
  PromptEngineStats stats() const;

 private:
  struct Run;
  using RunPtr = std::shared_ptr<Run>;

  NativePromptEngine(Model& model, const Digest& producer, PromptEngineOptions options, KvPool pool);

  void loop(const std::stop_token& stop);
  bool admit();
  Status start(Run& run);
  bool turn();
  bool compute_chunk(Run& run);
  void finish(Run& run, Status status);
  void note_chunk(int64_t tokens, double seconds);
  bool below_memory_floor() const;

  Model& model_;
  const Digest producer_;
  const PromptEngineOptions options_;
  KvPool pool_;

  // Engine thread only.
  PromptCache cache_;
  std::deque<RunPtr> running_;  // front runs next
  double recent_tokens_ = 0, recent_s_ = 0;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<RunPtr> waiting_ GUARDED_BY(mutex_);
  PromptEngineStats stats_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: joins before the rest is destroyed
};

}  // namespace isthmus
