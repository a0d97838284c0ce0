// SPDX-License-Identifier: Apache-2.0
// The native decode engine: one thread owns the model, the paged cache and the sampler; requests reach it
// through a queue. Each turn of its loop runs one prompt chunk of one request and one decode step of all
// running rows, so that a long prompt delays the others by a chunk at most. Finished rows become blocks of
// the store as they are computed.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "base/sync.h"
#include "decode/sampler.h"
#include "decode/session.h"
#include "flow/engine.h"
#include "flow/prefix_store.h"
#include "model/model.h"

namespace isthmus {

struct NativeEngineOptions {
  int64_t kv_tokens = 0;                // of the pool; 0: eight contexts, committed only as they are used
  int64_t chunk_tokens = kChunkTokens;  // prompt rows between two decode steps
  int max_rows = 16;                    // rows of one decode step
  int threads = 0;                      // of the kernels; 0: all cores
  size_t max_waiting = 64;              // requests beyond the running ones, then kResourceExhausted
  int64_t max_computed_prompt_tokens =
      0;  // 0: no limit. A test switch: 1 proves that all else came from blocks
};

class NativeEngine final : public Engine {
 public:
  // `model` and `store` outlive the engine.
  static Result<std::unique_ptr<NativeEngine>> create(Model& model, PrefixStore& store,
                                                      NativeEngineOptions options);
  ~NativeEngine() override;

  Result<std::unique_ptr<TokenStream>> generate(GenerateRequest request) override;
  // Of the model, or what the pool holds where that is less.
  int64_t context_tokens() const override;
  EngineStats stats() const override;

 private:
  NativeEngine(Model& model, PrefixStore& store, NativeEngineOptions options, KvPool pool);

  void run(const std::stop_token& stop);
  bool admit();
  Status start(Session& s);
  void prompt_turn();
  void decode_turn();
  void decode_rows(std::span<Session*> batch);
  void take_token(Session& s, std::span<const float> logits);
  void publish(Session& s, bool with_tail);
  void end(Session& s, FinishReason reason, Status status);
  void drop_ended();
  int64_t pages_for(const GenerateRequest& r) const;

  Model& model_;
  PrefixStore& store_;
  const NativeEngineOptions options_;
  KvPool pool_;
  Sampler sampler_;
  std::vector<float> logits_;  // [max_rows, V]

  // Engine thread only.
  std::deque<std::unique_ptr<Session>> prompts_;  // front runs next
  std::vector<std::unique_ptr<Session>> decoding_;
  int64_t promised_pages_ = 0;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<std::unique_ptr<Session>> waiting_ GUARDED_BY(mutex_);
  EngineStats stats_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: joins before the rest is destroyed
};

}  // namespace isthmus
