// SPDX-License-Identifier: Apache-2.0
// Checks the conversation of a chat request: messages and tools have the shape that OpenAI's schema asks for.
// Pure functions over the request's JSON. Changes nothing: fitting messages to one template is text/'s
// business (chat_messages.h). An assistant message with neither content nor tool calls is allowed and renders
// as empty.
#pragma once

#include "front/request_fields.h"

namespace isthmus {

// Errors name "messages[i].field"; kUnsupported for images, audio and files.
void check_messages(const Json* messages, RequestFields& fields);

// An array of {"type":"function","function":{"name",...}}; may be null.
void check_tools(const Json* tools, RequestFields& fields);

}  // namespace isthmus
