// SPDX-License-Identifier: Apache-2.0
#include "text/chat_messages.h"

#include <string_view>

namespace isthmus {
namespace {

constexpr std::string_view kProbeText = "probe text 7319";
constexpr std::string_view kProbeKey = "probe_key_4177";

Json text_parts(std::string_view text) {
  return Json::array({Json::object({{"type", "text"}, {"text", std::string(text)}})});
}

Json message(std::string_view role, Json content) {
  Json out = Json::object();
  out["role"] = std::string(role);
  out["content"] = std::move(content);
  return out;
}

Json tool_call_message(Json content, Json arguments) {
  Json call = Json::object();
  call["id"] = "call00001";  // nine letters and digits: one family insists on that
  call["type"] = "function";
  call["function"] = Json::object({{"name", "probe"}, {"arguments", std::move(arguments)}});
  Json out = message("assistant", std::move(content));
  out["tool_calls"] = Json::array({std::move(call)});
  return out;
}

Json tool_message(Json content) {
  Json out = message("tool", std::move(content));
  out["tool_call_id"] = "call00001";
  out["name"] = "probe";
  return out;
}

// A short conversation in which `role` says `content`; `arguments` are what a tool call carries.
Json conversation(std::string_view role, Json content, const Json& arguments) {
  if (role == "system") return Json::array({message(role, std::move(content)), message("user", "x")});
  if (role == "assistant") {
    return Json::array({message("user", "x"), message(role, std::move(content)), message("user", "y")});
  }
  if (role == "tool") {
    return Json::array(
        {message("user", "x"), tool_call_message("", arguments), tool_message(std::move(content))});
  }
  return Json::array({message(role, std::move(content))});
}

Json tool_conversation(Json call) {
  return Json::array({message("user", "x"), std::move(call), tool_message("y")});
}

size_t count(std::string_view text, std::string_view needle) {
  size_t n = 0;
  for (size_t at = text.find(needle); at != std::string_view::npos;
       at = text.find(needle, at + needle.size()))
    ++n;
  return n;
}

bool holds(const Result<std::string>& prompt, std::string_view needle) {
  return prompt.ok() && prompt->find(needle) != std::string::npos;
}

void probe_parts(const ProbeRender& render, std::string_view role, const Json& arguments,
                 MessageForms& forms) {
  const Result<std::string> parts = render(conversation(role, text_parts(kProbeText), arguments));
  const Result<std::string> text = render(conversation(role, std::string(kProbeText), arguments));
  if (!holds(parts, kProbeText)) return;
  if (text.ok() && *text == *parts) forms.takes_parts.insert(std::string(role));
  if (!holds(text, kProbeText)) forms.needs_parts.insert(std::string(role));
}

bool probe_text_arguments(const ProbeRender& render) {
  const Json object = Json::object({{std::string(kProbeKey), "v"}});
  const std::string text = "{\"" + std::string(kProbeKey) + "\": \"v\"}";
  const Result<std::string> as_object = render(tool_conversation(tool_call_message("", object)));
  const Result<std::string> as_text = render(tool_conversation(tool_call_message("", text)));
  const bool object_printed_raw = holds(as_object, "'" + std::string(kProbeKey) + "'");
  return holds(as_text, text) && (!as_object.ok() || object_printed_raw);
}

// A template that fails on null content, or prints it, wants "" instead. One that refuses tool calls
// altogether is left to say so itself.
bool renders_like_empty(const Result<std::string>& probe, const Result<std::string>& empty) {
  if (!empty.ok()) return true;
  return probe.ok() && count(*probe, "None") == count(*empty, "None");
}

void probe_empty_content(const ProbeRender& render, const Json& arguments, MessageForms& forms) {
  const Result<std::string> empty = render(tool_conversation(tool_call_message("", arguments)));
  Json call = tool_call_message(nullptr, arguments);
  forms.takes_null_content = renders_like_empty(render(tool_conversation(call)), empty);
  call.erase("content");
  forms.takes_missing_content = renders_like_empty(render(tool_conversation(std::move(call))), empty);
}

Result<std::string> join_parts(const Json& parts, const std::string& where) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string at = where + "[" + std::to_string(i) + "]";
    if (i > 0) out += '\n';
    if (part.is_string()) {
      out += part.get_ref<const std::string&>();
      continue;
    }
    if (!part.is_object()) return Status(Code::kInvalidArgument, at + ": expected an object or a string");
    const auto type = part.find("type");
    const auto text = part.find("text");
    const bool is_text =
        type == part.end() || *type == "text" || *type == "input_text" || *type == "output_text";
    if (!is_text || text == part.end() || !text->is_string()) {
      return Status(Code::kInvalidArgument, at + ": expected a text part, the template takes no other");
    }
    out += text->get_ref<const std::string&>();
  }
  return out;
}

Status adapt_content(Json& message, const std::string& role, bool has_calls, const MessageForms& forms,
                     const std::string& where) {
  const auto content = message.find("content");
  const bool missing = content == message.end();
  if (missing || content->is_null()) {
    const bool keeps = has_calls && (missing ? forms.takes_missing_content : forms.takes_null_content);
    if (!keeps) message["content"] = "";
    return {};
  }
  if (content->is_array() && !forms.takes_parts.contains(role) && !forms.needs_parts.contains(role)) {
    ASSIGN_OR_RETURN(std::string text, join_parts(*content, where + ".content"));
    *content = std::move(text);
  } else if (content->is_string() && forms.needs_parts.contains(role)) {
    *content = text_parts(content->get_ref<const std::string&>());
  } else if (!content->is_string() && !content->is_array()) {
    return {Code::kInvalidArgument, where + ".content: expected a string, a list of parts or null, got " +
                                        std::string(content->type_name())};
  }
  return {};
}

void adapt_arguments(Json& call, const MessageForms& forms) {
  if (!call.is_object()) return;
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return;
  const auto arguments = function->find("arguments");
  if (arguments == function->end()) return;
  if (forms.wants_text_arguments) {
    if (arguments->is_object()) *arguments = dump_json(*arguments);
    return;
  }
  if (!arguments->is_string()) return;
  const std::string& text = arguments->get_ref<const std::string&>();
  Result<Json> parsed = text.empty() ? Result<Json>(Json::object()) : parse_json(text, "arguments");
  if (parsed.ok() && parsed->is_object()) *arguments = parsed.take();
}

}  // namespace

MessageForms probe_forms(const ProbeRender& render) {
  MessageForms forms;
  forms.wants_text_arguments = probe_text_arguments(render);
  const Json arguments = forms.wants_text_arguments ? Json("{}") : Json::object();
  probe_empty_content(render, arguments, forms);
  for (std::string_view role : {"system", "user", "assistant", "tool"})
    probe_parts(render, role, arguments, forms);
  return forms;
}

Result<Json> adapt_messages(const Json& messages, const MessageForms& forms) {
  if (!messages.is_array()) return Status(Code::kInvalidArgument, "messages: expected a list");
  Json out = messages;
  for (size_t i = 0; i < out.size(); ++i) {
    Json& message = out[i];
    const std::string where = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) return Status(Code::kInvalidArgument, where + ": expected an object");
    const auto role = message.find("role");
    if (role == message.end() || !role->is_string()) {
      return Status(Code::kInvalidArgument, where + ".role: expected a string");
    }
    const std::string role_name = role->get<std::string>();
    auto calls = message.find("tool_calls");
    if (calls != message.end() && !calls->is_null() && !calls->is_array()) {
      return Status(Code::kInvalidArgument, where + ".tool_calls: expected a list");
    }
    const bool has_calls = calls != message.end() && calls->is_array() && !calls->empty();
    if (has_calls) {
      for (Json& call : *calls) adapt_arguments(call, forms);
    } else if (calls != message.end()) {
      message.erase("tool_calls");
    }
    TRY(adapt_content(message, role_name, has_calls, forms, where));
  }
  return out;
}

}  // namespace isthmus
