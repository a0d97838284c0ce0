// SPDX-License-Identifier: Apache-2.0
// ChatTemplate: the model's Jinja chat template, parsed once at load and rendered per request as transformers
// renders it (trim_blocks, lstrip_blocks, undefined variables print nothing, tojson keeps key order and
// Unicode). Immutable after parse: any number of threads may render. Not a tokenizer, and it neither
// validates roles nor adds a system prompt: that is the template's business.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "text/chat_messages.h"
#include "text/jinja_interpreter.h"

namespace isthmus {

struct ChatTemplateOptions {
  std::optional<std::string> bos_token;  // absent: undefined in the template, as for a tokenizer without one
  std::optional<std::string> eos_token;
  jinja::Limits limits;
  const Clock* clock = &SystemClock::instance();  // for strftime_now, in local time; outlives the template
};

struct ChatInput {
  Json messages = Json::array();  // OpenAI messages; see chat_messages.h for what is adapted
  Json tools;                     // array, or null for none
  Json documents;                 // array, or null for none
  bool add_generation_prompt = true;
  Json extra = Json::object();  // further variables (chat_template_kwargs), e.g. {"enable_thinking": false}
};

class ChatTemplate {
 public:
  // "chat template: line N: ...": kInvalidArgument for malformed source, kUnsupported for a tag, filter or
  // test that we do not have, kResourceExhausted for source that nests too deeply.
  static Result<ChatTemplate> parse(std::string_view source, ChatTemplateOptions options = {});

  // The prompt, UTF-8. kInvalidArgument: the template raised (its message is in ours), a value has the wrong
  // type, or a field of `input` is not what it must be; kResourceExhausted: a limit was passed.
  Result<std::string> render(const ChatInput& input) const;

  // How messages are adapted to this template.
  const MessageForms& forms() const { return forms_; }

 private:
  ChatTemplate(jinja::Block block, ChatTemplateOptions options);
  Result<std::string> render_as_is(const ChatInput& input, const jinja::Limits& limits) const;

  std::shared_ptr<const jinja::Block> block_;
  ChatTemplateOptions options_;
  MessageForms forms_;
};

}  // namespace isthmus
