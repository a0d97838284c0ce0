// SPDX-License-Identifier: Apache-2.0
// A request body as JSON. Json keeps keys in order and looks them up one by one, so an object of a million
// keys would cost a trillion comparisons: such bodies are refused before they are parsed. Pure function; any
// thread.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace isthmus {

inline constexpr int kMaxObjectKeys = 1024;  // of one object; the longest real ones are tool schemas

// Errors: kInvalidArgument (not JSON, too deep, too many keys, not an object).
Result<Json> parse_json_body(std::string_view body);

}  // namespace isthmus
