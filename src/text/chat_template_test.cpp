// SPDX-License-Identifier: Apache-2.0
// The wrapper: which forms a template takes, how messages are adapted to it, and what is refused.
#include "text/chat_template.h"

#include <gtest/gtest.h>

namespace isthmus {
namespace {

constexpr const char* kChatml =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

ChatInput input_of(const char* messages) {
  ChatInput input;
  input.messages = Json::parse(messages);
  return input;
}

std::string rendered(const char* source, const ChatInput& input) {
  Result<ChatTemplate> chat = ChatTemplate::parse(source);
  if (!chat.ok()) return chat.status().to_string();
  Result<std::string> prompt = chat->render(input);
  return prompt.ok() ? *prompt : prompt.status().to_string();
}

TEST(ChatTemplate, RendersChatml) {
  EXPECT_EQ(rendered(kChatml, input_of(R"([{"role":"user","content":"hi"}])")),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  ChatInput closed = input_of(R"([{"role":"user","content":"hi"}])");
  closed.add_generation_prompt = false;
  EXPECT_EQ(rendered(kChatml, closed), "<|im_start|>user\nhi<|im_end|>\n");
}

}  // namespace
}  // namespace isthmus
