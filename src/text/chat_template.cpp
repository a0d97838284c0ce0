// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <array>
#include <utility>

#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/jinja_text.h"

namespace isthmus {
namespace {

constexpr std::array<std::string_view, 6> kReserved = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token"};

Status with_prefix(const Status& status) {
  return {status.code(), "chat template: " + status.message()};
}

// Probes are a few words long; a template that spends more on them is answered by its defaults.
jinja::Limits probe_limits(jinja::Limits limits) {
  limits.max_steps = std::min<size_t>(limits.max_steps, 200'000);
  limits.max_work_bytes = std::min<size_t>(limits.max_work_bytes, 16U << 20U);
  limits.max_output_bytes = std::min<size_t>(limits.max_output_bytes, 1U << 20U);
  return limits;
}

Status add_variable(jinja::Variables& variables, std::string name, const Json& json) {
  Result<jinja::Value> value = jinja::from_json(json);
  if (!value.ok()) return {value.status().code(), name + ": " + value.status().message()};
  variables.emplace_back(std::move(name), value.take());
  return {};
}

Status check_list(const Json& json, std::string_view name) {
  if (json.is_null() || json.is_array()) return {};
  return {Code::kInvalidArgument, std::string(name) + ": expected a list"};
}

}  // namespace

ChatTemplate::ChatTemplate(jinja::Block block, ChatTemplateOptions options)
    : block_(std::make_shared<const jinja::Block>(std::move(block))), options_(std::move(options)) {
  const jinja::Limits limits = probe_limits(options_.limits);
  forms_ = probe_forms([&](const Json& messages) {
    ChatInput input;
    input.messages = messages;
    return render_as_is(input, limits);
  });
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, ChatTemplateOptions options) {
  for (const auto* text : {&options.bos_token, &options.eos_token}) {
    if (text->has_value() && !jinja::is_valid_utf8(**text)) {
      return Status(Code::kInvalidArgument, "chat template: bos or eos token is not UTF-8");
    }
  }
  if (!jinja::is_valid_utf8(source))
    return Status(Code::kInvalidArgument, "chat template: source is not UTF-8");
  Result<jinja::Block> block = jinja::parse_template(source);
  if (!block.ok()) return with_prefix(block.status());
  return ChatTemplate(block.take(), std::move(options));
}

Result<std::string> ChatTemplate::render(const ChatInput& input) const {
  TRY(check_list(input.tools, "tools"));
  TRY(check_list(input.documents, "documents"));
  if (!input.extra.is_object())
    return Status(Code::kInvalidArgument, "chat_template_kwargs: expected an object");
  for (std::string_view name : kReserved) {
    if (input.extra.contains(name)) {
      return Status(Code::kInvalidArgument,
                    "chat_template_kwargs." + std::string(name) + ": not a free name");
    }
  }
  ChatInput adapted;
  ASSIGN_OR_RETURN(adapted.messages, adapt_messages(input.messages, forms_));
  adapted.tools = input.tools;
  adapted.documents = input.documents;
  adapted.add_generation_prompt = input.add_generation_prompt;
  adapted.extra = input.extra;
  return render_as_is(adapted, options_.limits);
}

Result<std::string> ChatTemplate::render_as_is(const ChatInput& input, const jinja::Limits& limits) const {
  jinja::Variables variables;
  TRY(add_variable(variables, "messages", input.messages));
  TRY(add_variable(variables, "tools", input.tools));
  TRY(add_variable(variables, "documents", input.documents));
  variables.emplace_back("add_generation_prompt", jinja::Value(input.add_generation_prompt));
  if (options_.bos_token) variables.emplace_back("bos_token", jinja::Value(*options_.bos_token));
  if (options_.eos_token) variables.emplace_back("eos_token", jinja::Value(*options_.eos_token));
  for (const auto& [name, value] : input.extra.items()) TRY(add_variable(variables, name, value));
  Result<std::string> prompt = jinja::render(*block_, variables, limits, *options_.clock);
  if (!prompt.ok()) return with_prefix(prompt.status());
  return prompt;
}

}  // namespace isthmus
