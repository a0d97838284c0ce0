// SPDX-License-Identifier: Apache-2.0
// The parser's view of the tokens: one current token, tests and expectations on it, errors that name its
// line, and the nesting count. Owned by one parse on one thread. Not the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/jinja_lexer.h"

namespace isthmus::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  int line() const { return current().line; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }

  void next() {
    if (pos_ + 1 < tokens_.size()) ++pos_;
  }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);

  Status expect_op(std::string_view op);
  Status expect_name(std::string_view name);
  Status expect(TokenKind kind);
  Result<std::string> take_name();

  Status error(const std::string& what, Code code = Code::kInvalidArgument) const;
  Status unexpected(std::string_view expected) const;  // "line N: expected EXPECTED, got ..."

  // One level of nesting for as long as it lives.
  class Level {
   public:
    explicit Level(TokenStream& stream) : stream_(stream) { ++stream_.depth_; }
    ~Level() { --stream_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    Status check() const;

   private:
    TokenStream& stream_;
  };

 private:
  std::vector<Token> tokens_;  // never empty; the last is kEnd
  size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace isthmus::jinja
