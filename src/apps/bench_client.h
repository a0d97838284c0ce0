// SPDX-License-Identifier: Apache-2.0
// What `isthmus bench` asks of a server: one streamed completion of given token ids, timed as a client sees
// it. Any OpenAI-compatible server that takes ids as prompt. Any thread; const after creation. Knows nothing
// of cases and statistics (bench_cases.h).
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "base/token.h"
#include "net/http_client.h"

namespace isthmus {

struct TimedReply {
  MonotonicTime sent;
  std::vector<MonotonicTime> chunks;  // when each piece of text arrived; a piece is one token, seldom more
  int64_t prompt_tokens = 0;          // this and the next two: as the server's usage says
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t computed_tokens = -1;  // prompt tokens computed by the decode engine; -1: the server does not say
  std::string finish_reason;
  std::string outcome;  // of the verdict, without numbers; "" without one

  double ttft_s() const { return seconds_between(sent, chunks.front()); }
  // Between the first and the last piece; 0 when there is no such time.
  double decode_tok_s() const;
};

class BenchClient {
 public:
  // Asks GET /v1/models for the model's name, which other servers want in each request. kInvalidArgument: the
  // address; kUnavailable: nobody answers there, or it is no such server.
  // `stop` ends running calls with kCancelled.
  static Result<BenchClient> connect(const std::string& url, std::stop_token stop);

  const std::string& model() const { return model_; }

  // Greedy, to max_tokens even past an end token where the server can do that (ignore_eos). kUnavailable: it
  // refused, failed, or sent no text or no usage.
  Result<TimedReply> complete(const std::vector<TokenId>& prompt, int64_t max_tokens) const;

 private:
  BenchClient(HttpClient client, std::string url, std::stop_token stop)
      : client_(std::move(client)), url_(std::move(url)), stop_(std::move(stop)) {}

  HttpClient client_;
  std::string url_;
  std::stop_token stop_;
  std::string model_;
};

}  // namespace isthmus
