// SPDX-License-Identifier: Apache-2.0
#include "bridge/bridge_steps.h"

#include <algorithm>

#include "base/hash.h"
#include "base/log.h"

namespace isthmus {
namespace {

// How often the wait looks at the clock: the resolution of time-outs and progress, far below either.
constexpr std::chrono::milliseconds kTick{250};
// A sealed transfer's report is one small reply on an open connection; without it the counts stay 0.
constexpr std::chrono::milliseconds kReportGrace{2'000};

int64_t prompt_tokens(const Request& rq) {
  return static_cast<int64_t>(rq.ids.size());
}

Verdict started(const Request& rq, const BridgeOptions& options) {
  Verdict v;
  v.tokens = prompt_tokens(rq);
  v.mode = source_kind_name(options.mode);
  return v;
}

// Whether the other side still works: it sends frames (rows, or a ping every few seconds), and rows now and
// then.
class StallWatch {
 public:
  StallWatch(const BridgeOptions& options, MonotonicTime start)
      : options_(options), start_(start), last_frame_(start), last_row_(start) {}

  Status look(const TransferState& state, MonotonicTime now) {
    if (state.frames != frames_) last_frame_ = now;
    if (state.landed != landed_) last_row_ = now;
    frames_ = state.frames;
    landed_ = state.landed;
    if (now - last_frame_ > options_.stall_timeout) return stalled("no row", last_frame_, now);
    if (now - last_row_ > kRowPatience * options_.stall_timeout) return stalled("no row", last_row_, now);
    if (now - start_ > options_.total_timeout) return stalled("not sealed", start_, now);
    return {};
  }

 private:
  // Prompts queue at the prefill engine, which pings meanwhile: rows may be later than frames by this much.
  static constexpr int kRowPatience = 10;

  Status stalled(const char* what, MonotonicTime since, MonotonicTime now) const {
    return {Code::kDeadlineExceeded, std::string("handoff: ") + what + " for " +
                                         std::to_string(static_cast<int>(seconds_between(since, now))) +
                                         " s at token " + std::to_string(landed_)};
  }

  const BridgeOptions& options_;
  const MonotonicTime start_;
  MonotonicTime last_frame_, last_row_;
  uint64_t frames_ = 0;
  int64_t landed_ = -1;
};

// Why there are no more rows.
Status end_of(const TransferState& landed, const TransferSpec& spec, int64_t prompt) {
  if (!landed.error.ok()) return landed.error;
  const bool all = landed.landed == spec.last && spec.last < prompt - 1;
  if (all) return {Code::kResourceExhausted, "store: no room for more of this prompt"};
  return {Code::kUnavailable, "handoff: sealed early"};
}

std::string fraction(const char* word, int64_t part, int64_t whole) {
  return std::string(word) + " " + std::to_string(part) + "/" + std::to_string(whole);
}

}  // namespace

Verdict skipped(const Request& rq, const Decision& d, const BridgeOptions& options) {
  Verdict v = started(rq, options);
  v.skipped = true;
  v.why = d.why;
  v.cached_prefix = d.cached_tokens;
  v.tail = v.tokens - d.cached_tokens;
  return v;
}

Verdict bridge_started(const Request& rq, const Decision& d, const BridgeOptions& options) {
  Verdict v = started(rq, options);
  v.skipped = false;
  v.transport = "tcp";
  v.cached_prefix = d.cached_tokens;
  return v;
}

Verdict declined(Verdict v, const Status& why) {
  v.bridge_error = why.to_string();
  log_warn("bridge declined: {}", why.to_string());
  return v;
}

ChainSpec chain_after(const Request& rq, const CachedPrefix& warm, const Source& source,
                      const PrefixStore& store) {
  const int64_t block = store.layout().block_tokens;
  ChainSpec c;
  c.ids = rq.ids;
  c.first = warm.tokens / block * block;  // less than asked for when a block turned out damaged
  c.source = source;
  c.parent =
      c.first > 0 ? warm.blocks[static_cast<size_t>(c.first / block) - 1]->key : root_key(store.identity());
  c.transfer_id = random_hex(16);
  return c;
}

TransferSpec transfer_for(const Request& rq, const ChainSpec& chain, const PrefixStore& store) {
  TransferSpec t;
  t.id = chain.transfer_id;
  t.prompt_tokens = prompt_tokens(rq);
  t.first = chain.first;
  t.last = t.prompt_tokens - 1;
  t.ids = ids_digest(rq.ids);
  t.identity = store.identity();
  t.source = chain.source;
  t.layout = store.layout();
  return t;
}

PrefillCall prefill_call(const Request& rq, const TransferSpec& spec, const BridgeOptions& options) {
  PrefillCall call;
  call.transfer_id = spec.id;
  call.ids = rq.ids;
  call.resume_from = spec.first;
  call.identity = spec.identity;
  call.instance = options.instance;
  call.mode = spec.source.kind;
  return call;
}

struct PrefillOutcome::Shared {
  explicit Shared(IncomingTransfer& t) : transfer(t) {}
  IncomingTransfer& transfer;  // outlives the run, and the callback is not called after the run is dropped
  Mutex mutex;
  CondVar arrived;
  std::optional<Result<PrefillReport>> result GUARDED_BY(mutex);
};

PrefillOutcome::PrefillOutcome(IncomingTransfer& transfer) : shared_(std::make_shared<Shared>(transfer)) {}

std::function<void(Result<PrefillReport>)> PrefillOutcome::callback() {
  return [shared = shared_](Result<PrefillReport> r) {
    // An honest engine reports after the seal, which ends the transfer: then neither has an effect.
    shared->transfer.fail(r.ok() ? Status(Code::kCorrupt, "prefill engine: reported " +
                                                              std::to_string(r->shipped_tokens) +
                                                              " shipped tokens before a SEAL")
                                 : r.status());
    MutexLock lock(shared->mutex);
    shared->result = std::move(r);
    shared->arrived.notify_all();
  };
}

std::optional<PrefillReport> PrefillOutcome::report(const TransferState& landed) {
  const MonotonicTime until = std::chrono::steady_clock::now() + kReportGrace;
  MutexLock lock(shared_->mutex);
  while (landed.sealed && !shared_->result && shared_->arrived.wait_until(shared_->mutex, until)) {
  }
  if (!shared_->result || !shared_->result->ok()) return std::nullopt;
  return **shared_->result;
}

TransferState wait_for_transfer(IncomingTransfer& transfer, const Request& rq, const Verdict& so_far,
                                const BridgeOptions& options, ReplySink& reply) {
  const MonotonicTime start = std::chrono::steady_clock::now();
  MonotonicTime last_report = start;
  StallWatch watch(options, start);
  bool pending = false;
  while (true) {
    TransferState state = transfer.wait_until(std::chrono::steady_clock::now() + kTick, rq.cancel);
    const MonotonicTime now = std::chrono::steady_clock::now();
    if (state.ended) return state;
    if (rq.cancel.stop_requested()) {
      transfer.fail(Status(Code::kCancelled, "the client is gone"));
      return transfer.state();
    }
    if (const Status stalled = watch.look(state, now); !stalled.ok()) {
      transfer.fail(stalled);
      return transfer.state();
    }
    if (!rq.stream || now - start < options.early_stream_after) continue;
    if (!pending) {
      Verdict waiting = so_far;
      waiting.pending = true;
      reply.begin_pending(waiting);
      pending = true;
    }
    if (now - last_report >= options.progress_every) {
      reply.progress(state.landed, so_far.tokens);
      last_report = now;
    }
  }
}

Verdict verdict_of(Verdict v, const TransferSpec& spec, const TransferState& landed,
                   const std::optional<PrefillReport>& report, ServeStages& s) {
  const int64_t block = spec.layout.block_tokens;
  v.bridged_tokens = std::max(landed.landed, spec.first);
  const int64_t shipped = v.bridged_tokens - spec.first;
  v.blocks = (shipped + block - 1) / block;
  v.tail_rows = shipped % block;
  v.shipped = shipped;
  v.payload_bytes = landed.payload_bytes;
  v.cached_prefix = spec.first;
  v.t_assembled_s = landed.last_rows_s;
  v.t_bridge_total_s = landed.sealed ? landed.sealed_s : landed.last_rows_s;
  if (report) {
    v.prefilled = report->computed_tokens;
    v.reused_by_engine = report->reused_tokens;
    v.t_engine_s = report->engine_s;
  }
  if (landed.sealed && v.bridged_tokens == v.tokens - 1) {
    v.verdict = "complete";
    return v;
  }
  const Status why = end_of(landed, spec, v.tokens);
  const double coverage = static_cast<double>(v.bridged_tokens) / static_cast<double>(v.tokens);
  if (coverage < s.options.limits.min_coverage) {
    const std::string text = why.message() + " (" + fraction("rows", v.bridged_tokens, v.tokens) + ")";
    return declined(std::move(v), Status(why.code(), text));
  }
  v.verdict = fraction(landed.sealed ? "partial" : "salvage", v.bridged_tokens, v.tokens);
  log_warn("bridge {}: {}", v.verdict, why.to_string());
  return v;
}

void count(const Verdict& v, BridgeCounters& counters) {
  counters.change([&v](BridgeCounters::Values& c) {
    c.payload_bytes += v.payload_bytes;
    if (v.skipped)
      ++c.skipped;
    else if (v.bridge_error)
      ++c.declined;
    else if (v.verdict == "complete")
      ++c.complete;
    else if (v.verdict.rfind("partial", 0) == 0)
      ++c.partial;
    else
      ++c.salvaged;
  });
}

void count_wait(double seconds, BridgeCounters& counters) {
  counters.change([seconds](BridgeCounters::Values& c) { c.unbridged_wait_s += seconds; });
}

}  // namespace isthmus
