// SPDX-License-Identifier: Apache-2.0
#include "decode/native_engine.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/hash.h"
#include "base/log.h"
#include "decode/block_rows.h"
#include "kernels/threads.h"

namespace isthmus {
namespace {

class ChannelStream final : public TokenStream {
 public:
  ChannelStream(std::shared_ptr<StreamChannel> channel, const std::stop_token& cancel)
      : channel_(std::move(channel)), on_cancel_(cancel, Forward{channel_}) {}
  ~ChannelStream() override { channel_->cancel.request_stop(); }

  Result<std::optional<TokenEvent>> next() override { return channel_->pop(); }
  int64_t prompt_progress() const override { return channel_->progress(); }
  void stop() override { channel_->want_stop(); }
  GenerateStats stats() const override { return channel_->stats(); }

 private:
  struct Forward {
    std::shared_ptr<StreamChannel> channel;
    void operator()() const { channel->cancel.request_stop(); }
  };
  std::shared_ptr<StreamChannel> channel_;
  std::stop_callback<Forward> on_cancel_;
};

bool is_stop(const GenerateRequest& r, TokenId id) {
  return std::find(r.stop_tokens.begin(), r.stop_tokens.end(), id) != r.stop_tokens.end();
}

}  // namespace

Result<std::unique_ptr<NativeEngine>> NativeEngine::create(Model& model, PrefixStore& store,
                                                           NativeEngineOptions options) {
  if (options.kv_tokens == 0) options.kv_tokens = 8 * model.max_positions();
  options.max_rows = std::clamp(options.max_rows, 1, kernels::kMaxStepRows);
  ASSIGN_OR_RETURN(KvPool pool, KvPool::create(model.kv_shape(), options.kv_tokens));
  return std::unique_ptr<NativeEngine>(new NativeEngine(model, store, options, std::move(pool)));
}

NativeEngine::NativeEngine(Model& model, PrefixStore& store, NativeEngineOptions options, KvPool pool)
    : model_(model),
      store_(store),
      options_(options),
      pool_(std::move(pool)),
      logits_(static_cast<size_t>(options.max_rows) * static_cast<size_t>(model.config().vocab)),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

NativeEngine::~NativeEngine() {
  thread_.request_stop();
  {
    MutexLock lock(mutex_);
    wake_.notify_all();
  }
  thread_.join();
}

int64_t NativeEngine::context_tokens() const {
  return std::min<int64_t>(model_.max_positions(), int64_t{pool_.pages()} * kPageTokens);
}

int64_t NativeEngine::pages_for(const GenerateRequest& r) const {
  const int64_t tokens = static_cast<int64_t>(r.prompt.size()) + r.max_tokens;
  return (std::min(tokens, context_tokens()) + kPageTokens - 1) / kPageTokens;
}

Result<std::unique_ptr<TokenStream>> NativeEngine::generate(GenerateRequest request) {
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  if (tokens < 1 || request.max_tokens < 1 || request.prefix.tokens >= tokens) {
    return Status(Code::kInvalidArgument, "engine: " + std::to_string(tokens) + " prompt tokens, " +
                                              std::to_string(request.max_tokens) + " to generate");
  }
  if (tokens >= context_tokens()) {
    return Status(Code::kInvalidArgument, "engine: prompt has " + std::to_string(tokens) +
                                              " tokens, the context holds " +
                                              std::to_string(context_tokens()));
  }
  auto session = std::make_unique<Session>(std::move(request), pool_);
  session->submitted = std::chrono::steady_clock::now();
  session->stats.prompt_tokens = tokens;
  session->tokens = session->request.prompt;
  auto stream = std::make_unique<ChannelStream>(session->channel, session->request.cancel);
  MutexLock lock(mutex_);
  if (waiting_.size() >= options_.max_waiting) {
    return Status(Code::kResourceExhausted,
                  "engine: " + std::to_string(waiting_.size()) + " requests are waiting");
  }
  waiting_.push_back(std::move(session));
  ++stats_.requests;
  wake_.notify_one();
  return std::unique_ptr<TokenStream>(std::move(stream));
}

EngineStats NativeEngine::stats() const {
  MutexLock lock(mutex_);
  EngineStats s = stats_;
  s.waiting = static_cast<int>(waiting_.size());
  return s;
}

void NativeEngine::run(const std::stop_token& stop) {
  kernels::use_threads(options_.threads);
  while (!stop.stop_requested()) {
    while (admit()) {
    }
    if (prompts_.empty() && decoding_.empty()) {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stop.stop_requested()) wake_.wait(mutex_);
      continue;
    }
    prompt_turn();
    decode_turn();
  }
  const Status why(Code::kUnavailable, "engine: shutting down");
  for (auto& s : prompts_) end(*s, FinishReason::kCancelled, why);
  for (auto& s : decoding_) end(*s, FinishReason::kCancelled, why);
  MutexLock lock(mutex_);
  for (auto& s : waiting_) s->channel->finish(s->stats, why);
}

// Moves one waiting request to the running ones: a cancelled one, which needs no room, else the first if it
// fits. False: none.
bool NativeEngine::admit() {
  std::unique_ptr<Session> s;
  {
    MutexLock lock(mutex_);
    auto next = std::find_if(waiting_.begin(), waiting_.end(), [](const auto& w) { return w->cancelled(); });
    if (next == waiting_.end()) next = waiting_.begin();
    if (next == waiting_.end()) return false;
    const bool fits = promised_pages_ + pages_for((*next)->request) <= pool_.pages();
    if (!fits && !(*next)->cancelled()) return false;
    s = std::move(*next);
    waiting_.erase(next);
    ++stats_.active;
  }
  s->pages = pages_for(s->request);
  promised_pages_ += s->pages;
  const Status started =
      s->cancelled() ? Status(Code::kCancelled, "engine: cancelled while waiting") : start(*s);
  if (!started.ok()) {
    end(*s, FinishReason::kCancelled, started);
  } else {
    prompts_.push_back(std::move(s));
  }
  return true;
}

// The cached prefix becomes rows of the sequence; the lease is not needed after that.
Status NativeEngine::start(Session& s) {
  s.started = std::chrono::steady_clock::now();
  s.stats.queue_s = seconds_between(s.submitted, s.started);
  TRY(restore_rows(store_.layout(), s.request.prefix, s.sequence));
  const int64_t block = store_.layout().block_tokens;
  for (const BlockPtr& b : s.request.prefix.blocks) {
    if (b->last_token() <= s.request.prefix.tokens && b->last_token() % block == 0)
      s.published.push_back(b->key);
  }
  s.request.prefix.blocks.clear();
  s.stats.cached_tokens = s.request.prefix.tokens;
  s.stats.computed_tokens = s.stats.prompt_tokens - s.stats.cached_tokens;
  if (options_.max_computed_prompt_tokens > 0 &&
      s.stats.computed_tokens > options_.max_computed_prompt_tokens) {
    return {Code::kUnavailable, "engine: " + std::to_string(s.stats.computed_tokens) +
                                    " prompt tokens to compute, this engine is limited to " +
                                    std::to_string(options_.max_computed_prompt_tokens)};
  }
  s.channel->set_progress(s.stats.cached_tokens);
  return {};
}

void NativeEngine::prompt_turn() {
  if (prompts_.empty()) return;
  std::unique_ptr<Session> s = std::move(prompts_.front());
  prompts_.pop_front();
  if (s->cancelled()) return end(*s, FinishReason::kCancelled, Status());
  const int64_t n = std::min(options_.chunk_tokens, s->prompt_rows_left());
  if (n > 0) {
    const std::span<const TokenId> chunk =
        std::span(s->tokens).subspan(static_cast<size_t>(s->sequence.length()), static_cast<size_t>(n));
    const Status status = model_.prompt(chunk, s->sequence, nullptr, s->channel->cancel.get_token());
    if (!status.ok()) {
      const bool cancelled = status.code() == Code::kCancelled;
      return end(*s, FinishReason::kCancelled, cancelled ? Status() : status);
    }
    s->channel->set_progress(s->sequence.length());
    publish(*s, false);
  }
  if (s->prompt_rows_left() > 0) {
    prompts_.push_back(std::move(s));
  } else {
    decoding_.push_back(std::move(s));
  }
}

void NativeEngine::decode_turn() {
  std::vector<Session*> rows;
  for (auto& s : decoding_) {
    if (s->cancelled()) {
      end(*s, FinishReason::kCancelled, Status());
    } else if (s->channel->stop_wanted()) {
      end(*s, FinishReason::kStop, Status());
    } else {
      rows.push_back(s.get());
    }
  }
  for (size_t i = 0; i < rows.size(); i += static_cast<size_t>(options_.max_rows)) {
    const size_t n = std::min(rows.size() - i, static_cast<size_t>(options_.max_rows));
    decode_rows(std::span(rows).subspan(i, n));
  }
  drop_ended();
}

void NativeEngine::decode_rows(std::span<Session*> batch) {
  std::array<StepToken, kernels::kMaxStepRows> step{};
  for (size_t i = 0; i < batch.size(); ++i) step[i] = StepToken{batch[i]->tokens.back(), &batch[i]->sequence};
  const Status status = model_.step(std::span(step).first(batch.size()), logits_.data());
  const auto vocab = static_cast<size_t>(model_.config().vocab);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (status.ok()) {
      take_token(*batch[i], std::span<const float>(logits_).subspan(i * vocab, vocab));
    } else {
      end(*batch[i], FinishReason::kCancelled, status);
    }
  }
}

void NativeEngine::take_token(Session& s, std::span<const float> logits) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    return end(s, FinishReason::kCancelled,
               Status(Code::kCorrupt, "engine: the model gave logits that are not finite numbers"));
  }
  GenerateStats& st = s.stats;
  if (st.generated_tokens == 0) {
    st.first_logits_xxh3 = xxh3_64(std::as_bytes(logits));
    s.first_token = std::chrono::steady_clock::now();
    st.prompt_s = seconds_between(s.started, s.first_token);
  }
  const auto index = static_cast<uint64_t>(st.generated_tokens);
  TokenEvent event = sampler_.sample(logits, s.request.sampling, index);
  ++st.generated_tokens;
  if (is_stop(s.request, event.id)) return end(s, FinishReason::kStop, Status());
  s.tokens.push_back(event.id);
  s.channel->push(std::move(event));
  const bool full = s.sequence.length() + 1 >= context_tokens();
  if (st.generated_tokens >= s.request.max_tokens || full) end(s, FinishReason::kLength, Status());
}

// Hands rows that are whole blocks, and at the end the partial tail block, to the store. A store that refuses
// (memory floor, disk) costs later requests a hit, never this one its answer.
void NativeEngine::publish(Session& s, bool with_tail) {
  const int64_t block = store_.layout().block_tokens;
  const auto first = static_cast<int64_t>(s.published.size()) * block;
  const int64_t rows = s.sequence.length();
  const int64_t last = with_tail ? rows : rows / block * block;
  if (last <= first) return;
  ChainSpec chain;
  chain.ids.assign(s.tokens.begin(), s.tokens.begin() + last);
  chain.first = first;
  chain.source = s.request.prefix.source;  // what continues a bridged prefix depends on its bytes
  chain.parent = s.published.empty() ? root_key(store_.identity()) : s.published.back();
  const auto sink = store_.open_chain(chain);
  for (int64_t a = first; a < last; a += block) {
    const int64_t b = std::min(a + block, last);
    const Status put = sink->put(a, b, collect_rows(store_.layout(), s.sequence, a, b));
    if (!put.ok()) {
      log_debug("publish: {}", put.to_string());
      return;
    }
    if (b - a == block) {
      const auto ids =
          std::span<const TokenId>(s.tokens).subspan(static_cast<size_t>(a), static_cast<size_t>(block));
      chain.parent = block_key(chain.parent, chain.source, ids);
      s.published.push_back(chain.parent);
    }
  }
  (void)sink->seal(last);
}

void NativeEngine::end(Session& s, FinishReason reason, Status status) {
  if (reason != FinishReason::kCancelled) publish(s, true);
  s.stats.finish = reason;
  if (s.stats.generated_tokens > 0) s.stats.decode_s = seconds_since(s.first_token);
  promised_pages_ -= s.pages;
  s.pages = -1;  // marks an ended session
  const int64_t computed = std::min(s.sequence.length(), s.stats.prompt_tokens) - s.stats.cached_tokens;
  s.stats.computed_tokens = std::max<int64_t>(0, computed);
  s.sequence.truncate(0);
  {
    MutexLock lock(mutex_);
    --stats_.active;
    stats_.prompt_tokens_computed += static_cast<uint64_t>(s.stats.computed_tokens);
    stats_.prompt_tokens_cached += static_cast<uint64_t>(s.stats.cached_tokens);
    stats_.tokens_generated += static_cast<uint64_t>(s.stats.generated_tokens);
  }
  s.channel->finish(s.stats, std::move(status));
}

void NativeEngine::drop_ended() {
  std::erase_if(decoding_, [](const std::unique_ptr<Session>& s) { return s->pages < 0; });
}

}  // namespace isthmus
