// SPDX-License-Identifier: Apache-2.0
#include "bridge/serve_request.h"

#include <utility>

#include "base/clock.h"
#include "bridge/bridge_steps.h"
#include "bridge/decode_reply.h"
#include "route/decide.h"

namespace isthmus {
namespace {

struct Route {
  Decision decision;
  PrefillHealth health;  // asked only where a bridge is worth it
};

RouteFacts facts_of_store(const Request& rq, ServeStages& s) {
  RouteFacts f;
  const int64_t limit =
      static_cast<int64_t>(rq.ids.size()) - 1;  // the last prompt token is always the decoder's
  f.tokens = limit + 1;
  f.block_tokens = s.store.layout().block_tokens;
  f.cached_tokens = s.store.cached_tokens(rq.ids, limit, nullptr);
  f.storable_tokens = s.store.storable_tokens(limit);
  f.prefill_configured = s.prefill != nullptr;
  f.prefill_reachable = f.prefill_configured;  // until asked
  return f;
}

// A short or warm request is decided without a word to the prefill engine, so it never waits for a busy one.
Route find_route(const Request& rq, ServeStages& s) {
  RouteFacts f = facts_of_store(rq, s);
  Route r{decide(f, s.options.limits), {}};
  if (!r.decision.bridge) return r;
  const MonotonicTime asked = std::chrono::steady_clock::now();
  r.health = s.prefill->health();
  f.prefill_reachable = r.health.reachable;
  f.prefill_why = r.health.why;
  if (r.health.reachable) {
    const Source source{s.options.mode, r.health.producer};
    f.resumable_tokens = s.store.cached_tokens(rq.ids, f.tokens - 1, &source);
  }
  r.decision = decide(f, s.options.limits);
  if (!r.decision.bridge) count_wait(seconds_since(asked), s.counters);
  return r;
}

// What the prefill engine is asked for: the prompt, or its beginning where the store holds no more. As of any
// prompt, the last token's row is not shipped.
Request bridged_part(const Request& rq, const Decision& d) {
  Request part = rq;
  part.ids.resize(static_cast<size_t>(d.last) + 1);
  return part;
}

// Prefill there, blocks arriving here. Whatever happens, what landed stays a prefix hit.
Verdict bridge(const Request& whole, const Decision& d, const Digest& producer, ServeStages& s,
               ReplySink& reply) {
  Verdict v = bridge_started(whole, d, s.options);
  const Request rq = bridged_part(whole, d);
  const Source source{s.options.mode, producer};
  const CachedPrefix warm =
      s.store.longest_prefix(rq.ids, d.resume_from, &source);  // pinned while the bridge runs
  ChainSpec chain = chain_after(rq, warm, source, s.store);
  const TransferSpec spec = transfer_for(rq, chain, s.store);

  auto transfer =
      s.receiver->expect(spec, s.store.open_chain(std::move(chain)));  // rows are stored as they land
  if (!transfer.ok()) return declined(std::move(v), transfer.status());
  PrefillOutcome outcome(**transfer);
  auto run = s.prefill->start(prefill_call(rq, spec, s.options),
                              outcome.callback());  // capture and push happen there
  if (!run.ok()) return declined(std::move(v), run.status());

  const TransferState landed = wait_for_transfer(**transfer, rq, v, s.options, reply);
  return verdict_of(std::move(v), spec, landed, outcome.report(landed), s);
}

// What the decode engine need not compute. Blocks are read and checked now; damaged ones are misses from here
// on.
CachedPrefix cached_prefix(const Request& rq, ServeStages& s) {
  return s.store.longest_prefix(rq.ids, static_cast<int64_t>(rq.ids.size()) - 1, nullptr);
}

}  // namespace

void serve_request(const Request& rq, ServeStages& s, ReplySink& reply) {
  Route r = find_route(rq, s);
  CachedPrefix prefix;
  if (!r.decision.bridge) {
    prefix = cached_prefix(rq, s);
    if (prefix.tokens < r.decision.cached_tokens) r = find_route(rq, s);  // it looked warmer than it is
  }
  Verdict v = r.decision.bridge ? bridge(rq, r.decision, r.health.producer, s, reply)
                                : skipped(rq, r.decision, s.options);
  count(v, s.counters);
  if (rq.cancel.stop_requested()) return reply.fail(Status(Code::kCancelled, "the client is gone"));
  reply.begin(v);
  if (rq.bridge_only) return reply.finish(GenerateStats{});
  if (r.decision.bridge) prefix = cached_prefix(rq, s);
  decode(rq, std::move(prefix), s, reply);  // an ordinary prefix hit, or the decode engine alone
}

}  // namespace isthmus
