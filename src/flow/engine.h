// SPDX-License-Identifier: Apache-2.0
// What the bridge needs from a decode engine: generate tokens after a prompt whose cached prefix is handed
// over as leased blocks. Implemented by decode/ (native now; libllama and relays are others). Any thread may
// call generate(); one thread owns the engine behind it. Not per-token work: streams are read by the
// request's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "flow/prefix_store.h"

namespace isthmus {

struct SamplingParams {
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  int top_k = 0;  // 0: off
  double min_p = 0;
  uint64_t seed = 0;
  int top_logprobs = -1;  // -1: no logprobs; 0..20: the token's and this many alternatives
};

struct GenerateRequest {
  std::string id;               // for logs
  std::vector<TokenId> prompt;  // T >= 1 tokens
  CachedPrefix prefix;          // at most T - 1 tokens
  SamplingParams sampling;
  int64_t max_tokens = 0;            // >= 1
  std::vector<TokenId> stop_tokens;  // end of generation; not delivered
  std::stop_token cancel;
};

struct TokenEvent {
  TokenId id = 0;
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // alternatives, best first
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled };

struct GenerateStats {
  FinishReason finish = FinishReason::kStop;
  int64_t prompt_tokens = 0;    // T
  int64_t cached_tokens = 0;    // taken over from blocks
  int64_t computed_tokens = 0;  // prompt tokens computed here, the last one included
  int64_t generated_tokens = 0;
  uint64_t first_logits_xxh3 = 0;  // of the f32 logits vector after the prompt: equal bits, equal hash
  double queue_s = 0;
  double prompt_s = 0;  // from the start of work to the first token
  double decode_s = 0;  // from the first token to the last
};

// One running generation. Dropping it cancels. One reader thread.
class TokenStream {
 public:
  virtual ~TokenStream() = default;
  // Blocks for the next token; nullopt at the end; an error when the engine failed this request.
  virtual Result<std::optional<TokenEvent>> next() = 0;
  // Prompt tokens ready so far, cached ones included (for progress; any thread).
  virtual int64_t prompt_progress() const = 0;
  // Ends the generation early (stop text found); next() then drains to nullopt with finish = kStop.
  virtual void stop() = 0;
  // Valid after next() gave nullopt.
  virtual GenerateStats stats() const = 0;
};

struct EngineStats {
  int active = 0;
  int waiting = 0;
  uint64_t requests = 0;
  uint64_t prompt_tokens_computed = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t tokens_generated = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;
  // Errors: kInvalidArgument (empty prompt, too long for the context), kResourceExhausted (queue full).
  virtual Result<std::unique_ptr<TokenStream>> generate(GenerateRequest request) = 0;
  virtual int64_t context_tokens() const = 0;  // prompt + generated tokens of one request
  virtual EngineStats stats() const = 0;
};

}  // namespace isthmus
