// SPDX-License-Identifier: Apache-2.0
#include "front/json_body.h"

#include <vector>

namespace isthmus {
namespace {

// Index behind the string that begins at `i` (on its opening quote).
size_t skip_string(std::string_view text, size_t i) {
  for (++i; i < text.size() && text[i] != '"'; ++i) {
    if (text[i] == '\\') ++i;
  }
  return i;
}

// Counts keys without parsing: a colon outside strings belongs to the innermost object. Text that is no JSON
// is counted somehow and refused by the parser.
Status check_sizes(std::string_view text) {
  std::vector<int> keys;  // of each open object
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      i = skip_string(text, i);
    } else if (c == '{') {
      keys.push_back(0);
      if (keys.size() > kMaxJsonDepth) return Status(Code::kInvalidArgument, "body: nested too deeply");
    } else if (c == '}' && !keys.empty()) {
      keys.pop_back();
    } else if (c == ':' && !keys.empty() && ++keys.back() > kMaxObjectKeys) {
      return Status(Code::kInvalidArgument, "body: expected at most " + std::to_string(kMaxObjectKeys) +
                                                " keys in one object, got more");
    }
  }
  return Status();
}

}  // namespace

Result<Json> parse_json_body(std::string_view body) {
  TRY(check_sizes(body));
  ASSIGN_OR_RETURN(Json parsed, parse_json(body, "body"));
  if (!parsed.is_object()) return Status(Code::kInvalidArgument, "body: expected a JSON object");
  return parsed;
}

}  // namespace isthmus
