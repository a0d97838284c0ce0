// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/chat/completions and /v1/completions, parsed and checked. Every field is accepted
// within its range, or refused by name: what we know but cannot do is never dropped silently. Fields that we
// do not know are ignored and listed, as clients of such servers expect. Pure function; any thread. Not the
// prompt: see prompt.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/token.h"
#include "flow/engine.h"
#include "front/api_error.h"

namespace isthmus {

enum class RequestKind : uint8_t { kChat, kCompletion };

struct OpenAiRequest {
  RequestKind kind = RequestKind::kChat;
  // Chat.
  Json messages;
  Json tools;                                // null: none, or not to be offered (tool_choice "none")
  Json template_variables = Json::object();  // chat_template_kwargs
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the model goes on writing the last message
  // Completion: one of the two.
  std::string prompt;
  std::vector<TokenId> prompt_ids;
  // Both.
  SamplingParams sampling;
  int64_t max_tokens = 0;  // 0: to the end of the context
  std::vector<std::string> stop;
  bool ignore_eos = false;  // the model's end tokens do not end the answer
  bool stream = false;
  bool include_usage = false;               // in a stream
  std::vector<std::string> ignored_fields;  // that we do not know
};

struct RequestRules {
  SamplingParams sampling;              // what a field that is missing or null means
  std::span<const std::string> models;  // names that this server answers to
  int64_t completion_max_tokens = 512;  // of a text completion that names none
};

struct ParsedRequest {
  OpenAiRequest request;
  std::optional<ApiError> error;  // then `request` is of no use
};

// A missing seed is drawn at random.
ParsedRequest parse_openai_request(std::string_view body, RequestKind kind, const RequestRules& rules);

}  // namespace isthmus
