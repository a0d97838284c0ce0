// SPDX-License-Identifier: Apache-2.0
// What may follow a value: attributes, subscripts, calls, filters and tests. The other half is
// jinja_expression_parser.cpp.
#include "text/jinja_expression_parser.h"

namespace isthmus::jinja {

Result<ExprPtr> ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    Result<ExprPtr> longer = ExprPtr();
    if (stream_.is_op(".")) {
      longer = parse_attribute(std::move(node));
    } else if (stream_.is_op("[")) {
      longer = parse_subscript(std::move(node));
    } else if (stream_.is_op("(")) {
      longer = parse_call(std::move(node));
    } else {
      return node;
    }
    if (!longer.ok()) return longer.status();
    node = longer.take();
  }
}

Result<ExprPtr> ExpressionParser::parse_attribute(ExprPtr node) {
  ExprPtr access = make(ExprKind::kAttribute, stream_.line());
  stream_.next();
  access->children.push_back(std::move(node));
  if (stream_.is(TokenKind::kInteger)) {
    access->kind = ExprKind::kItem;
    TRY(add(*access, parse_number()));
    return finish(std::move(access));
  }
  ASSIGN_OR_RETURN(access->text, stream_.take_name());
  return finish(std::move(access));
}

Result<ExprPtr> ExpressionParser::parse_subscript(ExprPtr node) {
  const int line = stream_.line();
  stream_.next();
  if (stream_.is_op(":")) return parse_slice_bounds(std::move(node), nullptr);
  ASSIGN_OR_RETURN(ExprPtr index, parse_expression());
  if (stream_.is_op(":")) return parse_slice_bounds(std::move(node), std::move(index));
  TRY(stream_.expect_op("]"));
  ExprPtr access = make(ExprKind::kItem, line);
  access->children.push_back(std::move(node));
  access->children.push_back(std::move(index));
  return finish(std::move(access));
}

Result<ExprPtr> ExpressionParser::parse_slice_bounds(ExprPtr node, ExprPtr start) {
  ExprPtr slice = make(ExprKind::kSlice, stream_.line());
  slice->children.push_back(std::move(node));
  slice->children.push_back(std::move(start));
  while (slice->children.size() < 4 && stream_.skip_op(":")) {
    if (stream_.is_op(":") || stream_.is_op("]")) {
      slice->children.push_back(nullptr);
    } else {
      TRY(add(*slice, parse_expression()));
    }
  }
  slice->children.resize(4);
  TRY(stream_.expect_op("]"));
  return finish(std::move(slice));
}

Status ExpressionParser::parse_arguments(Expr& call) {
  TRY(stream_.expect_op("("));
  while (!stream_.is_op(")")) {
    if (stream_.is_op("*") || stream_.is_op("**")) {
      return stream_.error("unpacked call arguments (* and **) are not supported", Code::kUnsupported);
    }
    const bool named = stream_.is(TokenKind::kName) && stream_.ahead().kind == TokenKind::kOperator &&
                       stream_.ahead().text == "=";
    if (named) {
      std::string name = stream_.current().text;
      stream_.next();
      stream_.next();
      ASSIGN_OR_RETURN(ExprPtr value, parse_expression());
      call.kwargs.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.kwargs.empty()) return stream_.unexpected("a named argument");
      TRY(add(call, parse_expression()));
    }
    if (!stream_.skip_op(",")) break;
  }
  return stream_.expect_op(")");
}

Result<ExprPtr> ExpressionParser::parse_call(ExprPtr node) {
  ExprPtr call = make(ExprKind::kCall, stream_.line());
  call->children.push_back(std::move(node));
  TRY(parse_arguments(*call));
  return finish(std::move(call));
}

Result<ExprPtr> ExpressionParser::parse_filters(ExprPtr node) {
  while (true) {
    Result<ExprPtr> longer = ExprPtr();
    if (stream_.skip_op("|")) {
      longer = parse_detached_filter();
      if (longer.ok()) {
        (*longer)->children[0] = std::move(node);
        longer = finish(longer.take());
      }
    } else if (stream_.is_name("is")) {
      longer = parse_test(std::move(node));
    } else if (stream_.is_op("(")) {
      longer = parse_call(std::move(node));
    } else {
      return node;
    }
    if (!longer.ok()) return longer.status();
    node = longer.take();
  }
}

Result<ExprPtr> ExpressionParser::parse_detached_filter() {
  ExprPtr node = make(ExprKind::kFilter, stream_.line());
  node->children.push_back(nullptr);
  const std::string name = stream_.current().text;
  const Status unknown = stream_.error("unknown filter '" + name + "'", Code::kUnsupported);
  ASSIGN_OR_RETURN(node->text, stream_.take_name());
  node->filter = find_filter(node->text);
  if (node->filter == nullptr) return unknown;
  if (stream_.is_op("(")) TRY(parse_arguments(*node));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_test(ExprPtr value) {
  ExprPtr node = make(ExprKind::kTest, stream_.line());
  stream_.next();
  const bool negated = stream_.skip_name("not");
  const Status unknown = stream_.error("unknown test '" + stream_.current().text + "'", Code::kUnsupported);
  ASSIGN_OR_RETURN(node->text, stream_.take_name());
  node->predicate = find_predicate(node->text);
  if (node->predicate == nullptr) return unknown;
  node->children.push_back(std::move(value));
  const bool ends = stream_.is_name("else") || stream_.is_name("or") || stream_.is_name("and");
  const bool literal = stream_.is(TokenKind::kName) || stream_.is(TokenKind::kString) ||
                       stream_.is(TokenKind::kInteger) || stream_.is(TokenKind::kFloat);
  if (stream_.is_op("(")) {
    TRY(parse_arguments(*node));
  } else if (!ends && (literal || stream_.is_op("[") || stream_.is_op("{"))) {
    if (stream_.is_name("is")) return stream_.error("tests cannot be chained with 'is'");
    TokenStream::Level level(stream_);
    TRY(level.check());
    ASSIGN_OR_RETURN(ExprPtr argument, parse_primary());
    TRY(add(*node, parse_postfix(std::move(argument))));
  }
  ASSIGN_OR_RETURN(ExprPtr test, finish(std::move(node)));
  if (!negated) return test;
  ExprPtr inverse = make(ExprKind::kNot, test->line);
  inverse->children.push_back(std::move(test));
  return finish(std::move(inverse));
}

}  // namespace isthmus::jinja
