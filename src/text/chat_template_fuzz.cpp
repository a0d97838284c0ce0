// SPDX-License-Identifier: Apache-2.0
// Any bytes as a chat template: parsed, probed and rendered with a conversation that has every form of
// message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

namespace {

isthmus::ChatInput conversation() {
  isthmus::ChatInput input;
  input.messages = isthmus::Json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Wörter 你好"}]},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "abc123def", "type": "function",
      "function": {"name": "f", "arguments": "{\"a\": [1, 2.5, true, null]}"}}]},
    {"role": "tool", "tool_call_id": "abc123def", "content": "t"},
    {"role": "user", "content": "so?"}])");
  input.tools = isthmus::Json::parse(R"([{"type": "function", "function": {"name": "f", "description": "d",
    "parameters": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}}}])");
  return input;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const isthmus::ChatInput input = conversation();
  isthmus::ChatTemplateOptions options;
  options.bos_token = "<s>";
  options.limits.max_iterations = 2'000;
  options.limits.max_steps = 20'000;
  options.limits.max_output_bytes = 1U << 16U;
  options.limits.max_work_bytes = 4U << 20U;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const isthmus::Result<isthmus::ChatTemplate> chat = isthmus::ChatTemplate::parse(source, options);
  if (chat.ok()) (void)chat->render(input);
  return 0;
}
