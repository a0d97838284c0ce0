// SPDX-License-Identifier: Apache-2.0
#include "prefill/native_prompt_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/fs.h"

namespace isthmus {
namespace {

// How often captures without room are asked again: far below the time of a chunk.
constexpr std::chrono::milliseconds kRoomPoll{2};
// Weight of the past in the rate, per chunk: about the last ten chunks count.
constexpr double kRateDecay = 0.9;

Status cancelled() {
  return {Code::kCancelled, "prefill: cancelled"};
}

}  // namespace

// Shared with the caller, who may still be waking up when the engine is gone.
struct NativePromptEngine::Run {
  Run(std::span<const TokenId> prompt, int64_t resume, Capture& sink, std::stop_token stop, KvPool& pool)
      : ids(prompt.first(prompt.size() - 1)),
        resume_from(resume),
        capture(sink),
        cancel(std::move(stop)),
        sequence(pool) {}

  const std::span<const TokenId> ids;  // to compute: all but the last
  const int64_t resume_from;
  Capture& capture;
  const std::stop_token cancel;

  // Engine thread only.
  Sequence sequence;
  PrefillReport report;
  MonotonicTime started;

  Mutex mutex;
  CondVar changed;
  std::optional<Result<PrefillReport>> result GUARDED_BY(mutex);

  int64_t rows_left() const { return static_cast<int64_t>(ids.size()) - sequence.length(); }
};

Result<std::unique_ptr<NativePromptEngine>> NativePromptEngine::create(Model& model, const Digest& producer,
                                                                       PromptEngineOptions options) {
  if (options.kv_tokens == 0) options.kv_tokens = 4 * model.max_positions();
  options.chunk_tokens = std::max<int64_t>(1, options.chunk_tokens);
  if (!options.available_memory) options.available_memory = available_memory_bytes;
  ASSIGN_OR_RETURN(KvPool pool, KvPool::create(model.kv_shape(), options.kv_tokens));
  using Self = NativePromptEngine;
  return std::unique_ptr<Self>(new Self(model, producer, std::move(options), std::move(pool)));
}

NativePromptEngine::NativePromptEngine(Model& model, const Digest& producer, PromptEngineOptions options,
                                       KvPool pool)
    : model_(model),
      producer_(producer),
      options_(std::move(options)),
      pool_(std::move(pool)),
      thread_([this](const std::stop_token& stop) { loop(stop); }) {}

NativePromptEngine::~NativePromptEngine() {
  thread_.request_stop();
  {
    MutexLock lock(mutex_);
    wake_.notify_all();
  }
  thread_.join();
}

int64_t NativePromptEngine::max_tokens() const {
  return std::min(model_.max_positions(), int64_t{pool_.pages()} * kPageTokens) + 1;
}

Result<PrefillReport> NativePromptEngine::run(std::span<const TokenId> ids, int64_t resume_from,
                                              Capture& capture, std::stop_token cancel) {
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens < 2 || tokens > max_tokens()) {
    return Status(Code::kInvalidArgument, "prefill: ids: expected 2 to " + std::to_string(max_tokens()) +
                                              " tokens, got " + std::to_string(tokens));
  }
  if (resume_from < 0 || resume_from >= tokens) {
    return Status(Code::kInvalidArgument, "prefill: resume_from: expected 0 to " +
                                              std::to_string(tokens - 1) + ", got " +
                                              std::to_string(resume_from));
  }
  const auto run = std::make_shared<Run>(ids, resume_from, capture, std::move(cancel), pool_);
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= options_.max_waiting) {
      return Status(Code::kResourceExhausted,
                    "prefill: " + std::to_string(waiting_.size()) + " prompts are waiting");
    }
    waiting_.push_back(run);
    ++stats_.prompts;
    wake_.notify_one();
  }
  MutexLock lock(run->mutex);
  while (!run->result) run->changed.wait(run->mutex);
  return *run->result;
}

PromptEngineStats NativePromptEngine::stats() const {
  MutexLock lock(mutex_);
  PromptEngineStats s = stats_;
  s.waiting = static_cast<int>(waiting_.size());
  return s;
}

void NativePromptEngine::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    while (admit()) {
    }
    const bool idle = running_.empty();
    if (!idle && turn()) continue;
    MutexLock lock(mutex_);
    stats_.free_pages = pool_.free_pages();
    if (!idle) {
      (void)wake_.wait_until(mutex_, std::chrono::steady_clock::now() + kRoomPoll);
    } else {
      while (waiting_.empty() && !stop.stop_requested()) wake_.wait(mutex_);
    }
  }
  const Status why(Code::kUnavailable, "prefill: shutting down");
  while (!running_.empty()) {
    finish(*running_.front(), why);
    running_.pop_front();
  }
  std::deque<RunPtr> rest;
  {
    MutexLock lock(mutex_);
    rest.swap(waiting_);
    stats_.running += static_cast<int>(rest.size());  // finish() counts them off
  }
  for (const RunPtr& run : rest) finish(*run, why);
}

// Moves one waiting prompt to the running ones, or ends it. False: none waits, or the first does not fit yet.
bool NativePromptEngine::admit() {
  RunPtr run;
  {
    MutexLock lock(mutex_);
    if (waiting_.empty()) return false;
    const auto given_up = std::find_if(waiting_.begin(), waiting_.end(),
                                       [](const RunPtr& r) { return r->cancel.stop_requested(); });
    run = given_up != waiting_.end() ? *given_up : waiting_.front();
  }
  const Status started = start(*run);
  if (started.code() == Code::kResourceExhausted && !running_.empty()) {
    run->sequence.truncate(0);
    return false;
  }
  {
    MutexLock lock(mutex_);
    std::erase(waiting_, run);
    ++stats_.running;
  }
  if (started.ok()) {
    running_.push_back(std::move(run));
  } else {
    finish(*run, started);
  }
  return true;
}

// Takes what the cache has and room for the rest.
Status NativePromptEngine::start(Run& run) {
  if (run.cancel.stop_requested()) return cancelled();
  if (below_memory_floor()) {
    return {Code::kResourceExhausted, "prefill: memory floor: less than " +
                                          std::to_string(options_.memory_floor_bytes >> 20) +
                                          " MiB available"};
  }
  run.started = std::chrono::steady_clock::now();
  const PromptCache::Hit hit = cache_.longest_prefix(run.ids, run.resume_from);
  if (hit.tokens > 0) run.sequence.share_prefix(*hit.donor, hit.tokens);
  run.report.reused_tokens = hit.tokens;
  Status reserved = run.sequence.reserve(run.rows_left());
  // The donor is the most recent entry. It goes too when nobody else will give pages back.
  while (!reserved.ok() && cache_.size() > (running_.empty() ? 0 : 1) && cache_.evict_oldest()) {
    reserved = run.sequence.reserve(run.rows_left());
  }
  return reserved;
}

// One chunk of the first prompt in rotation that can use it. False: none can.
bool NativePromptEngine::turn() {
  for (size_t tries = running_.size(); tries > 0; --tries) {
    RunPtr run = std::move(running_.front());
    running_.pop_front();
    if (run->cancel.stop_requested()) {
      finish(*run, cancelled());
      return true;
    }
    if (run->capture.has_room()) {
      if (compute_chunk(*run)) running_.push_back(std::move(run));
      return true;
    }
    running_.push_back(std::move(run));
  }
  return false;
}

// False when the run has ended.
bool NativePromptEngine::compute_chunk(Run& run) {
  const int64_t n = std::min(options_.chunk_tokens, run.rows_left());
  if (n == 0 || below_memory_floor()) {
    finish(run, Status());
    return false;
  }
  const auto at = static_cast<size_t>(run.sequence.length());
  const MonotonicTime begin = std::chrono::steady_clock::now();
  Status status =
      model_.prompt(run.ids.subspan(at, static_cast<size_t>(n)), run.sequence, &run.capture, run.cancel);
  const MonotonicTime end = std::chrono::steady_clock::now();
  if (status.ok()) {
    run.report.computed_tokens += n;
    run.report.engine_s = seconds_between(run.started, end);
    note_chunk(n, seconds_between(begin, end));
    status = run.capture.chunk_done(run.sequence.length());
  }
  if (status.ok() && run.rows_left() > 0) return true;
  finish(run, status);
  return false;
}

// The caller, and with it capture and ids, may be gone once the result is set.
void NativePromptEngine::finish(Run& run, Status status) {
  const bool whole = status.ok() && run.rows_left() == 0;
  if (whole) cache_.insert({run.ids.begin(), run.ids.end()}, std::move(run.sequence));
  run.sequence.truncate(0);
  {
    MutexLock lock(mutex_);
    --stats_.running;
    stats_.tokens_reused += static_cast<uint64_t>(run.report.reused_tokens);
    stats_.cached_prompts = static_cast<int64_t>(cache_.size());
    stats_.free_pages = pool_.free_pages();
  }
  MutexLock lock(run.mutex);
  if (status.ok()) {
    run.result = run.report;
  } else {
    run.result = std::move(status);
  }
  run.changed.notify_all();
}

void NativePromptEngine::note_chunk(int64_t tokens, double seconds) {
  recent_tokens_ = recent_tokens_ * kRateDecay + static_cast<double>(tokens);
  recent_s_ = recent_s_ * kRateDecay + seconds;
  MutexLock lock(mutex_);
  stats_.tokens_computed += static_cast<uint64_t>(tokens);
  if (recent_s_ > 0) stats_.tokens_per_s = recent_tokens_ / recent_s_;
}

bool NativePromptEngine::below_memory_floor() const {
  return options_.memory_floor_bytes > 0 && options_.available_memory() < options_.memory_floor_bytes;
}

}  // namespace isthmus
