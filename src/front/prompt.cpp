// SPDX-License-Identifier: Apache-2.0
#include "front/prompt.h"

namespace isthmus {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Cuts the rendered text right behind the last message's content, so that the model goes on with it.
Status cut_after_last_message(const Json& messages, std::string& rendered) {
  const Json& last = messages.back();
  const auto content = last.find("content");
  if (last.value("role", "") != "assistant" || content == last.end() || !content->is_string()) {
    return Status(Code::kInvalidArgument,
                  "continue_final_message: expected the last message to be the assistant's, with text");
  }
  const std::string_view text = trimmed(content->get_ref<const std::string&>());
  const size_t at = rendered.rfind(text);
  if (text.empty() || at == std::string::npos) {
    return Status(Code::kInvalidArgument,
                  "continue_final_message: expected the last message's text in the rendered prompt");
  }
  rendered.resize(at + text.size());
  return Status();
}

Status too_long(const char* field, const PromptTools& tools, const std::string& tokens) {
  return {Code::kInvalidArgument, std::string(field) + ": expected fewer tokens than the context of " +
                                      std::to_string(tools.context_tokens) + ", got " + tokens};
}

// What cannot fit is refused before it is cut into tokens, which takes seconds for a text of many megabytes.
Status check_can_fit(const char* field, std::string_view text, const PromptTools& tools) {
  const size_t least = tools.tokenizer.least_tokens(text);
  if (static_cast<int64_t>(least) < tools.context_tokens) return Status();
  return too_long(field, tools, "at least " + std::to_string(least));
}

Result<std::vector<TokenId>> chat_ids(const OpenAiRequest& request, const PromptTools& tools) {
  if (tools.chat_template == nullptr) {
    return Status(Code::kUnsupported,
                  "messages: this model has no chat template; use /v1/completions with a prompt");
  }
  ChatInput input;
  input.messages = request.messages;
  input.tools = request.tools;
  input.add_generation_prompt = request.add_generation_prompt;
  input.extra = request.template_variables;
  ASSIGN_OR_RETURN(std::string text, tools.chat_template->render(input));
  if (request.continue_final_message) TRY(cut_after_last_message(request.messages, text));
  TRY(check_can_fit("messages", text, tools));
  return tools.tokenizer.encode_rendered(text);
}

Result<std::vector<TokenId>> completion_ids(const OpenAiRequest& request, const PromptTools& tools) {
  const Tokenizer& tokenizer = tools.tokenizer;
  if (request.prompt_ids.empty()) {
    TRY(check_can_fit("prompt", request.prompt, tools));
    return tokenizer.encode(request.prompt, {.parse_special = true, .add_bos = true});
  }
  for (const TokenId id : request.prompt_ids) {
    if (id < 0 || static_cast<size_t>(id) >= tokenizer.vocab_size()) {
      return Status(Code::kInvalidArgument, "prompt: expected token ids below " +
                                                std::to_string(tokenizer.vocab_size()) + ", got " +
                                                std::to_string(id));
    }
  }
  return request.prompt_ids;
}

}  // namespace

Result<std::vector<TokenId>> prompt_ids(const OpenAiRequest& request, const PromptTools& tools) {
  const bool chat = request.kind == RequestKind::kChat;
  ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                   chat ? chat_ids(request, tools) : completion_ids(request, tools));
  const char* const field = chat ? "messages" : "prompt";
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens == 0) {
    return Status(Code::kInvalidArgument, std::string(field) + ": expected a prompt, got 0 tokens");
  }
  if (tokens >= tools.context_tokens) return too_long(field, tools, std::to_string(tokens));
  return ids;
}

}  // namespace isthmus
