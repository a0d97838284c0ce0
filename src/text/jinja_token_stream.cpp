// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_token_stream.h"

#include "text/jinja_parser.h"

namespace isthmus::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kBlockBegin:
      return "{%";
    case TokenKind::kBlockEnd:
      return "%}";
    case TokenKind::kVariableBegin:
      return "{{";
    case TokenKind::kVariableEnd:
      return "}}";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return "'" + token.text + "'";
  }
}

std::string describe(TokenKind kind) {
  return kind == TokenKind::kName ? "a name" : describe(Token{kind, "", 0});
}

}  // namespace

bool TokenStream::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  next();
  return true;
}

bool TokenStream::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

Status TokenStream::expect_op(std::string_view op) {
  return skip_op(op) ? Status() : unexpected("'" + std::string(op) + "'");
}

Status TokenStream::expect_name(std::string_view name) {
  return skip_name(name) ? Status() : unexpected("'" + std::string(name) + "'");
}

Status TokenStream::expect(TokenKind kind) {
  if (!is(kind)) return unexpected(describe(kind));
  next();
  return {};
}

Result<std::string> TokenStream::take_name() {
  if (!is(TokenKind::kName)) return unexpected("a name");
  std::string name = current().text;
  next();
  return name;
}

Status TokenStream::error(const std::string& what, Code code) const {
  return {code, "line " + std::to_string(line()) + ": " + what};
}

Status TokenStream::unexpected(std::string_view expected) const {
  return error("expected " + std::string(expected) + ", got " + describe(current()));
}

Status TokenStream::Level::check() const {
  if (stream_.depth_ <= kMaxSyntaxDepth) return {};
  return stream_.error("nesting deeper than " + std::to_string(kMaxSyntaxDepth) + " levels",
                       Code::kResourceExhausted);
}

}  // namespace isthmus::jinja
