// SPDX-License-Identifier: Apache-2.0
// One generation inside the engine, and the channel to the thread that reads it. The engine thread owns the
// Session; the StreamChannel is shared by both threads.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"
#include "flow/engine.h"
#include "model/kv_pool.h"

namespace isthmus {

class StreamChannel {
 public:
  // Engine side.
  void push(TokenEvent event) EXCLUDES(mutex_);
  void finish(const GenerateStats& stats, Status status) EXCLUDES(mutex_);  // once
  void set_progress(int64_t tokens) { progress_ = tokens; }
  bool stop_wanted() const { return stop_wanted_; }

  // Reader side.
  Result<std::optional<TokenEvent>> pop() EXCLUDES(mutex_);
  GenerateStats stats() const EXCLUDES(mutex_);
  int64_t progress() const { return progress_; }
  void want_stop() { stop_wanted_ = true; }

  std::stop_source cancel;  // reader gone or request cancelled: interrupts a prompt chunk

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TokenEvent> events_ GUARDED_BY(mutex_);
  std::optional<Status> end_ GUARDED_BY(mutex_);
  GenerateStats stats_ GUARDED_BY(mutex_);
  std::atomic<int64_t> progress_{0};
  std::atomic<bool> stop_wanted_{false};
};

struct Session {
  Session(GenerateRequest r, KvPool& pool) : request(std::move(r)), sequence(pool) {}

  GenerateRequest request;
  Sequence sequence;
  std::shared_ptr<StreamChannel> channel = std::make_shared<StreamChannel>();
  std::vector<TokenId>
      tokens;  // prompt, then what was generated; the last one's row may not be in the cache yet
  std::vector<BlockKey> published;  // keys of the chain's full blocks, cached ones included
  GenerateStats stats;
  int64_t pages = 0;  // promised by admission; -1 once ended
  MonotonicTime submitted, started, first_token;

  int64_t prompt_rows_left() const { return stats.prompt_tokens - 1 - sequence.length(); }
  bool cancelled() const { return channel->cancel.stop_requested() || request.cancel.stop_requested(); }
};

}  // namespace isthmus
