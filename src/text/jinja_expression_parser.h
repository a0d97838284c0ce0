// SPDX-License-Identifier: Apache-2.0
// The expression half of the grammar. Owned by one parse on one thread; reads from the statement parser's
// stream.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja_ast.h"
#include "text/jinja_token_stream.h"

namespace isthmus::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  // `condition` false: "a if b" is not read, so that a for tag keeps its own if.
  Result<ExprPtr> parse_expression(bool condition = true);
  // An expression, or several separated by commas: a tuple.
  Result<ExprPtr> parse_tuple(bool condition = true);
  // NAME, NAME(args): a filter to be applied to the value of a block; children[0] stays null.
  Result<ExprPtr> parse_detached_filter();

 private:
  using Rule = Result<ExprPtr> (ExpressionParser::*)();

  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_signed() { return parse_unary(true); }
  Result<ExprPtr> parse_unary(bool with_filter);
  Result<ExprPtr> parse_primary();
  Result<ExprPtr> parse_word();
  Result<ExprPtr> parse_number();
  Result<ExprPtr> parse_parenthesis();
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr node);
  Result<ExprPtr> parse_filters(ExprPtr node);
  Result<ExprPtr> parse_attribute(ExprPtr node);
  Result<ExprPtr> parse_subscript(ExprPtr node);
  Result<ExprPtr> parse_slice_bounds(ExprPtr node, ExprPtr start);
  Result<ExprPtr> parse_call(ExprPtr node);
  Result<ExprPtr> parse_test(ExprPtr node);
  Status parse_arguments(Expr& call);
  bool at_tuple_end() const;

  Result<ExprPtr> parse_words(std::string_view word, ExprKind kind, Rule operand);
  Result<ExprPtr> parse_chain(const std::vector<std::pair<std::string_view, Op>>& ops, Rule operand);
  Op take_comparison(bool& found);

  ExprPtr make(ExprKind kind, int line) const;
  static Status add(Expr& node, Result<ExprPtr> child);
  // Computes the depth; kResourceExhausted if it passes the limit.
  Result<ExprPtr> finish(ExprPtr node) const;

  TokenStream& stream_;
};

}  // namespace isthmus::jinja
