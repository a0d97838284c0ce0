// SPDX-License-Identifier: Apache-2.0
// A parsed request to prompt ids: the model's chat template, then the model's tokenizer, once. From here on
// only ids travel. Pure functions; any thread. Control tokens that users spell out in messages or prompts are
// control tokens, as in transformers and the reference servers: the rendered text is one string, and the
// template's own control tokens cannot be told from theirs.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/token.h"
#include "front/openai_request.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace isthmus {

struct PromptTools {
  const Tokenizer& tokenizer;
  const ChatTemplate* chat_template;  // null: the model has none
  int64_t context_tokens;
};

// At least one id and fewer than the context holds. Errors: kInvalidArgument (the template refused, too long,
// an id outside the vocabulary), kUnsupported (chat without a template).
Result<std::vector<TokenId>> prompt_ids(const OpenAiRequest& request, const PromptTools& tools);

}  // namespace isthmus
