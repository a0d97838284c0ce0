// SPDX-License-Identifier: Apache-2.0
// The JSON objects of replies: whole replies, stream chunks, log probabilities and usage, in OpenAI's chat
// and completion forms. Pure functions; any thread. Sends nothing.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "front/generated_text.h"
#include "front/reply_context.h"

namespace isthmus {

// "stop" or "length". Text that met a stop string has stopped, whatever the engine says.
std::string_view finish_reason(const GenerateStats& stats, bool stopped);

// What precedes the choices: id, object, created, model.
Json reply_head(const ReplyContext& c, bool chunk);

// Whole replies: one choice, usage.
Json whole_reply(const ReplyContext& c, const TextPiece& all, std::string_view finish, Json usage);

// Chunks of a stream, each with one choice; the usage chunk has none.
Json role_chunk(const ReplyContext& c);  // chat only
Json text_chunk(const ReplyContext& c, const TextPiece& piece);
Json finish_chunk(const ReplyContext& c, std::string_view finish);
Json usage_chunk(const ReplyContext& c, Json usage);

// usage; with "isthmus" inside when c.debug.
Json usage_json(const ReplyContext& c, const GenerateStats& stats, int64_t completion_tokens);

}  // namespace isthmus
