// SPDX-License-Identifier: Apache-2.0
#include "apps/bench_cases.h"

#include <algorithm>
#include <latch>
#include <map>
#include <optional>
#include <thread>

#include "base/statistics.h"
#include "base/thread.h"

namespace isthmus {
namespace {

using Round = std::vector<TimedReply>;  // requests that ran at once

double median(const std::vector<double>& values) {
  return percentile(values, 0.5);
}

// Tokens a second of all streams together while all of them were writing: between the latest first and the
// earliest last piece. nullopt when there is no such time.
std::optional<double> total_tok_s(const Round& round) {
  MonotonicTime from = MonotonicTime::min(), to = MonotonicTime::max();
  for (const TimedReply& r : round) {
    from = std::max(from, r.chunks.front());
    to = std::min(to, r.chunks.back());
  }
  if (from >= to) return std::nullopt;
  double tokens = 0;
  for (const TimedReply& r : round) {
    const auto inside =
        std::count_if(r.chunks.begin(), r.chunks.end(), [&](MonotonicTime t) { return t > from && t <= to; });
    tokens += static_cast<double>(inside) * static_cast<double>(r.completion_tokens) /
              static_cast<double>(r.chunks.size());
  }
  return tokens / seconds_between(from, to);
}

Result<Round> run_round(const BenchClient& client, const std::vector<std::vector<TokenId>>& prompts,
                        int64_t max_tokens) {
  std::vector<Result<TimedReply>> results(prompts.size(), Status(Code::kInternal, "not run"));
  {
    std::latch start(static_cast<std::ptrdiff_t>(prompts.size()));
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < prompts.size(); ++i) {
      auto thread = start_thread([&, i](const std::stop_token&) {
        start.arrive_and_wait();
        results[i] = client.complete(prompts[i], max_tokens);
      });
      if (thread.ok()) {
        threads.push_back(thread.take());
      } else {
        results[i] = thread.status();
        start.count_down();
      }
    }
    threads.clear();  // joins before the latch goes
  }
  Round round;
  for (Result<TimedReply>& r : results) {
    if (!r.ok()) return r.status();
    round.push_back(std::move(*r));
  }
  return round;
}

std::vector<std::vector<TokenId>> make_prompts(PromptMaker& maker, const BenchCase& c) {
  std::vector<std::vector<TokenId>> out;
  for (int i = 0; i < c.streams; ++i) out.push_back(maker.make(c.prompt_tokens));
  return out;
}

Json sample_json(const TimedReply& r) {
  Json j = {{"ttft_s", r.ttft_s()},
            {"decode_tok_s", r.decode_tok_s()},
            {"prompt_tokens", r.prompt_tokens},
            {"cached_tokens", r.cached_tokens},
            {"computed_tokens", r.computed_tokens >= 0 ? Json(r.computed_tokens) : Json()},
            {"completion_tokens", r.completion_tokens},
            {"finish_reason", r.finish_reason},
            {"outcome", r.outcome}};
  return j;
}

Json summary(const BenchCase& c, const std::vector<Round>& rounds) {
  std::vector<double> ttft, prefill, decode, totals;
  std::map<std::string, int> outcomes;
  Json samples = Json::array();
  int64_t computed = 0;  // not taken from a cache
  for (const Round& round : rounds) {
    if (const auto total = total_tok_s(round)) totals.push_back(*total);
    for (const TimedReply& r : round) {
      ttft.push_back(r.ttft_s());
      prefill.push_back(static_cast<double>(r.prompt_tokens) / r.ttft_s());
      decode.push_back(r.decode_tok_s());
      computed += r.prompt_tokens - r.cached_tokens;
      ++outcomes[r.outcome];
      samples.push_back(sample_json(r));
    }
  }
  return {{"prompt_tokens", c.prompt_tokens},
          {"max_tokens", c.max_tokens},
          {"streams", c.streams},
          {"requests", ttft.size()},
          {"ttft_s_p50", median(ttft)},
          {"ttft_s_p95", percentile(ttft, 0.95)},
          {"prefill_tok_s", median(prefill)},
          {"decode_tok_s", median(decode)},
          {"total_decode_tok_s", totals.empty() ? Json() : Json(median(totals))},
          {"uncached_prompt_tokens", computed},
          {"outcomes", outcomes},
          {"samples", std::move(samples)}};
}

}  // namespace

PromptMaker::PromptMaker(uint64_t seed, int64_t vocabulary)
    : random_(seed),
      ids_(static_cast<TokenId>(vocabulary / 16), static_cast<TokenId>(vocabulary - vocabulary / 16 - 1)) {}

std::vector<TokenId> PromptMaker::make(int64_t tokens) {
  std::vector<TokenId> out(static_cast<size_t>(tokens));
  for (TokenId& id : out) id = ids_(random_);
  return out;
}

Result<Json> run_case(const BenchClient& client, PromptMaker& prompts, const BenchCase& c) {
  std::vector<std::vector<TokenId>> asked = make_prompts(prompts, c);
  if (c.warm) {
    for (const auto& prompt : asked) {
      const auto first = client.complete(prompt, 1);
      if (!first.ok()) return first.status();
    }
  }
  std::vector<Round> rounds;
  for (int i = 0; i < c.repeat; ++i) {
    if (i > 0 && !c.warm) asked = make_prompts(prompts, c);
    ASSIGN_OR_RETURN(Round round, run_round(client, asked, c.max_tokens));
    rounds.push_back(std::move(round));
  }
  return summary(c, rounds);
}

}  // namespace isthmus
