// SPDX-License-Identifier: Apache-2.0
// Adapts a request's messages to what a chat template can read. Templates differ in whether content may be a
// list of parts or null and whether tool-call arguments are objects or JSON text; none says so, and clients
// send every form. The template is asked: it renders small probe conversations at load, and the answers are
// kept in MessageForms. Values and pure functions, any thread. Not a validation of the OpenAI schema.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace isthmus {

struct MessageForms {
  // Roles for which a list of text parts renders exactly as the same string does. For others a list is joined
  // with newlines into one string, and a part that is not text is an error.
  std::set<std::string, std::less<>> takes_parts;
  // Roles for which only a list of parts shows up in the prompt; a string is wrapped into one text part.
  std::set<std::string, std::less<>> needs_parts;
  // An assistant message with tool calls may have null content, or none. Otherwise it gets "".
  bool takes_null_content = true;
  bool takes_missing_content = true;
  // Tool-call arguments are handed over as the client's JSON text. Otherwise text that holds a JSON object is
  // parsed, as the reference servers do.
  bool wants_text_arguments = false;
};

// Renders a conversation; the error text does not matter.
using ProbeRender = std::function<Result<std::string>(const Json& messages)>;
MessageForms probe_forms(const ProbeRender& render);

// The messages to render. Beyond `forms`: a message with neither content nor tool calls gets content "", and
// a tool_calls field that is null or empty is dropped. kInvalidArgument "messages[i]...." for what cannot be
// adapted.
Result<Json> adapt_messages(const Json& messages, const MessageForms& forms);

}  // namespace isthmus
