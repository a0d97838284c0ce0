// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a chat request and of a completion: accepted with values in range, or refused.
#include <cstdlib>

#include "front/openai_request.h"

using namespace isthmus;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const ParsedRequest& parsed) {
  if (parsed.error) {
    require(!parsed.error->status.ok());
    require(!dump_json(error_json(*parsed.error)).empty());
    return;
  }
  const OpenAiRequest& r = parsed.request;
  require(r.sampling.temperature >= 0 && r.sampling.temperature <= 2);
  require(r.sampling.top_p > 0 && r.sampling.top_p <= 1);
  require(r.sampling.min_p >= 0 && r.sampling.min_p <= 1);
  require(r.sampling.top_k >= 0 && r.sampling.top_logprobs >= -1 && r.sampling.top_logprobs <= 20);
  require(r.max_tokens >= 0 && r.stop.size() <= 4);
  if (r.kind == RequestKind::kChat)
    require(r.messages.is_array() && !r.messages.empty());
  else
    require(r.prompt.empty() != r.prompt_ids.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> models = {"m"};
  const RequestRules rules{.sampling = {.temperature = 0.7}, .models = models};
  check(parse_openai_request(body, RequestKind::kChat, rules));
  check(parse_openai_request(body, RequestKind::kCompletion, rules));
  return 0;
}
