// SPDX-License-Identifier: Apache-2.0
#include "front/openai_messages.h"

#include <algorithm>
#include <array>

namespace isthmus {
namespace {

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 6> kMediaParts = {"image_url",   "input_image", "image",
                                                         "input_audio", "file",        "video_url"};

std::string at(const std::string& where, size_t i) {
  return where + "[" + std::to_string(i) + "]";
}

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Json* member(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

bool is_string(const Json* v) {
  return v != nullptr && v->is_string();
}

void check_part(const Json& part, const std::string& where, RequestFields& fields) {
  if (!part.is_object()) return fields.expected(where, "an object", part);
  const Json* type = member(part, "type");
  if (!is_string(type)) return fields.expected(where + ".type", "a string", type ? *type : Json());
  const auto& name = type->get_ref<const std::string&>();
  if (is_one_of(kMediaParts, name)) {
    return fields.unsupported(where + ".type", "\"" + name + "\": this model reads text only");
  }
  if (name != "text") return fields.expected(where + ".type", "\"text\"", *type);
  const Json* text = member(part, "text");
  if (!is_string(text)) fields.expected(where + ".text", "a string", text ? *text : Json());
}

void check_content(const Json* content, bool may_be_absent, const std::string& where, RequestFields& fields) {
  if (content == nullptr) {
    if (!may_be_absent) fields.expected(where, "a string or an array of parts", Json());
    return;
  }
  if (content->is_string()) return;
  if (!content->is_array()) return fields.expected(where, "a string or an array of parts", *content);
  for (size_t i = 0; i < content->size(); ++i) check_part((*content)[i], at(where, i), fields);
}

void check_tool_calls(const Json* calls, const std::string& where, RequestFields& fields) {
  if (calls == nullptr) return;
  if (!calls->is_array()) return fields.expected(where, "an array", *calls);
  for (size_t i = 0; i < calls->size(); ++i) {
    const Json& call = (*calls)[i];
    const Json* function = call.is_object() ? member(call, "function") : nullptr;
    if (function == nullptr || !function->is_object()) {
      return fields.expected(at(where, i) + ".function", "an object", function ? *function : Json());
    }
    const Json* name = member(*function, "name");
    if (!is_string(name)) {
      return fields.expected(at(where, i) + ".function.name", "a string", name ? *name : Json());
    }
  }
}

void check_message(const Json& message, const std::string& where, RequestFields& fields) {
  if (!message.is_object()) return fields.expected(where, "an object", message);
  const Json* role = member(message, "role");
  if (!is_string(role) || !is_one_of(kRoles, role->get_ref<const std::string&>())) {
    return fields.expected(where + ".role", "system, developer, user, assistant or tool",
                           role ? *role : Json());
  }
  const bool assistant = *role == "assistant";
  check_content(member(message, "content"), assistant, where + ".content", fields);
  const Json* calls = member(message, "tool_calls");
  if (calls != nullptr && !assistant) {
    return fields.fail(where + ".tool_calls", "expected only in assistant messages");
  }
  check_tool_calls(calls, where + ".tool_calls", fields);
  const Json* name = member(message, "name");
  if (name != nullptr && !name->is_string()) fields.expected(where + ".name", "a string", *name);
}

}  // namespace

void check_messages(const Json* messages, RequestFields& fields) {
  if (messages == nullptr || !messages->is_array() || messages->empty()) {
    return fields.expected("messages", "a non-empty array", messages ? *messages : Json());
  }
  for (size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    check_message((*messages)[i], at("messages", i), fields);
  }
}

void check_tools(const Json* tools, RequestFields& fields) {
  if (tools == nullptr) return;
  if (!tools->is_array()) return fields.expected("tools", "an array", *tools);
  for (size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
    const Json& tool = (*tools)[i];
    const std::string where = at("tools", i);
    if (!tool.is_object()) return fields.expected(where, "an object", tool);
    const Json* type = member(tool, "type");
    if (type == nullptr || *type != "function") {
      return fields.expected(where + ".type", "\"function\"", type ? *type : Json());
    }
    const Json* function = member(tool, "function");
    if (function == nullptr || !function->is_object() || !is_string(member(*function, "name"))) {
      return fields.expected(where + ".function.name", "a string", Json());
    }
  }
}

}  // namespace isthmus
