// SPDX-License-Identifier: Apache-2.0
// Splits template source into tokens with Jinja's white-space rules as chat templates are rendered:
// trim_blocks and lstrip_blocks on, one trailing newline of the source dropped, "-" and "+" signs honoured,
// raw blocks as data. A pure function, any thread. Not the parser: token order is not checked here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus::jinja {

enum class TokenKind {
  kData,           // literal template text
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,   // text holds the unescaped value
  kInteger,  // text holds the digits without underscores, 0x/0o/0b prefix kept
  kFloat,
  kOperator,  // text holds the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;
};

// kInvalidArgument "line N: ..." for source that cannot be split; the last token is kEnd. Source must be
// UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace isthmus::jinja
