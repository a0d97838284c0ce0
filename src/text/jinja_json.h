// SPDX-License-Identifier: Apache-2.0
// Between JSON and template values: requests in, the tojson filter out (as Python's json.dumps writes it).
// Pure functions, any thread. Not a JSON parser.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/status.h"
#include "text/jinja_value.h"

namespace isthmus::jinja {

// kResourceExhausted when the JSON nests deeper than a value may; kInvalidArgument for text that is not
// UTF-8. Unsigned integers beyond int64 become floating point.
Result<Value> from_json(const nlohmann::ordered_json& json);

struct JsonStyle {
  std::optional<int> indent;  // spaces a level; one line if absent
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> item_separator;  // default ", ", or "," with an indent
  std::string key_separator = ": ";
};

// kInvalidArgument for a value that JSON cannot hold (undefined, functions, namespaces).
Result<std::string> to_json(const Value& value, const JsonStyle& style);

}  // namespace isthmus::jinja
