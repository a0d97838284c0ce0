// SPDX-License-Identifier: Apache-2.0
// Tokens to syntax tree, with Jinja's precedence. An unknown tag, filter or test is an error here, at load,
// not when a request first reaches it. Pure functions, any thread. Not the lexer, not the meaning.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/status.h"
#include "text/jinja_ast.h"

namespace isthmus::jinja {

// Nesting of tags and expressions together; bounds the stack of parsing, rendering and freeing.
inline constexpr int kMaxSyntaxDepth = 120;

// "line N: ...": kInvalidArgument for malformed source, kUnsupported for a tag, filter or test we do not
// have, kResourceExhausted for source that nests too deeply.
Result<Block> parse_template(std::string_view source);

}  // namespace isthmus::jinja
