// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <charconv>

#include "text/jinja_parser.h"

namespace isthmus::jinja {
namespace {

using OpTable = std::vector<std::pair<std::string_view, Op>>;

Status add(Expr& node, Result<ExprPtr> child) {
  if (!child.ok()) return child.status();
  node.children.push_back(child.take());
  return {};
}

}  // namespace

ExprPtr ExpressionParser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

Result<ExprPtr> ExpressionParser::finish(ExprPtr node) const {
  int deepest = 0;
  for (const ExprPtr& child : node->children)
    deepest = std::max(deepest, child == nullptr ? 0 : child->depth);
  for (const auto& [name, value] : node->kwargs) deepest = std::max(deepest, value->depth);
  node->depth = deepest + 1;
  if (node->depth > kMaxSyntaxDepth) {
    return Status(Code::kResourceExhausted, "line " + std::to_string(node->line) +
                                                ": expression nests deeper than " +
                                                std::to_string(kMaxSyntaxDepth) + " levels");
  }
  return node;
}

Result<ExprPtr> ExpressionParser::parse_expression(bool condition) {
  TokenStream::Level level(stream_);
  TRY(level.check());
  ASSIGN_OR_RETURN(ExprPtr value, parse_or());
  while (condition && stream_.is_name("if")) {
    ExprPtr node = make(ExprKind::kCondition, stream_.line());
    stream_.next();
    TRY(add(*node, parse_or()));
    node->children.push_back(std::move(value));
    if (stream_.skip_name("else")) {
      TRY(add(*node, parse_expression()));
    } else {
      node->children.push_back(nullptr);
    }
    ASSIGN_OR_RETURN(value, finish(std::move(node)));
  }
  return value;
}

bool ExpressionParser::at_tuple_end() const {
  return stream_.is(TokenKind::kVariableEnd) || stream_.is(TokenKind::kBlockEnd) || stream_.is_op(")") ||
         stream_.is_name("recursive");
}

Result<ExprPtr> ExpressionParser::parse_tuple(bool condition) {
  ExprPtr tuple = make(ExprKind::kTuple, stream_.line());
  TRY(add(*tuple, parse_expression(condition)));
  if (!stream_.is_op(",")) return std::move(tuple->children[0]);
  while (stream_.skip_op(",")) {
    if (at_tuple_end()) break;
    TRY(add(*tuple, parse_expression(condition)));
  }
  return finish(std::move(tuple));
}

Result<ExprPtr> ExpressionParser::parse_words(std::string_view word, ExprKind kind, Rule operand) {
  ASSIGN_OR_RETURN(ExprPtr first, (this->*operand)());
  if (!stream_.is_name(word)) return first;
  ExprPtr node = make(kind, stream_.line());
  node->children.push_back(std::move(first));
  while (stream_.skip_name(word)) TRY(add(*node, (this->*operand)()));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_or() {
  return parse_words("or", ExprKind::kOr, &ExpressionParser::parse_and);
}
Result<ExprPtr> ExpressionParser::parse_and() {
  return parse_words("and", ExprKind::kAnd, &ExpressionParser::parse_not);
}

Result<ExprPtr> ExpressionParser::parse_not() {
  TokenStream::Level level(stream_);
  TRY(level.check());
  if (!stream_.is_name("not")) return parse_compare();
  ExprPtr node = make(ExprKind::kNot, stream_.line());
  stream_.next();
  TRY(add(*node, parse_not()));
  return finish(std::move(node));
}

Op ExpressionParser::take_comparison(bool& found) {
  static const OpTable kOps = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
                               {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
  found = true;
  for (const auto& [text, op] : kOps) {
    if (stream_.skip_op(text)) return op;
  }
  if (stream_.skip_name("in")) return Op::kIn;
  if (stream_.is_name("not") && stream_.ahead().kind == TokenKind::kName && stream_.ahead().text == "in") {
    stream_.next();
    stream_.next();
    return Op::kNotIn;
  }
  found = false;
  return Op::kEq;
}

Result<ExprPtr> ExpressionParser::parse_compare() {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExprPtr first, parse_sum());
  ExprPtr node = make(ExprKind::kCompare, line);
  node->children.push_back(std::move(first));
  bool found = true;
  while (true) {
    const Op op = take_comparison(found);
    if (!found) break;
    node->ops.push_back(op);
    TRY(add(*node, parse_sum()));
  }
  if (node->ops.empty()) return std::move(node->children[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_chain(const OpTable& ops, Rule operand) {
  const int line = stream_.line();
  ASSIGN_OR_RETURN(ExprPtr first, (this->*operand)());
  ExprPtr node = make(ExprKind::kChain, line);
  node->children.push_back(std::move(first));
  while (true) {
    const auto hit =
        std::find_if(ops.begin(), ops.end(), [&](const auto& op) { return stream_.is_op(op.first); });
    if (hit == ops.end()) break;
    stream_.next();
    node->ops.push_back(hit->second);
    TRY(add(*node, (this->*operand)()));
  }
  if (node->ops.empty()) return std::move(node->children[0]);
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_sum() {
  static const OpTable kOps = {{"+", Op::kAdd}, {"-", Op::kSub}};
  return parse_chain(kOps, &ExpressionParser::parse_concat);
}
Result<ExprPtr> ExpressionParser::parse_concat() {
  static const OpTable kOps = {{"~", Op::kConcat}};
  return parse_chain(kOps, &ExpressionParser::parse_product);
}
Result<ExprPtr> ExpressionParser::parse_product() {
  static const OpTable kOps = {{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}};
  return parse_chain(kOps, &ExpressionParser::parse_power);
}
Result<ExprPtr> ExpressionParser::parse_power() {
  static const OpTable kOps = {{"**", Op::kPow}};
  return parse_chain(kOps, &ExpressionParser::parse_signed);
}

Result<ExprPtr> ExpressionParser::parse_unary(bool with_filter) {
  TokenStream::Level level(stream_);
  TRY(level.check());
  ExprPtr node;
  if (stream_.is_op("-") || stream_.is_op("+")) {
    ExprPtr sign = make(stream_.is_op("-") ? ExprKind::kNegate : ExprKind::kPlus, stream_.line());
    stream_.next();
    TRY(add(*sign, parse_unary(false)));
    ASSIGN_OR_RETURN(node, finish(std::move(sign)));
  } else {
    ASSIGN_OR_RETURN(node, parse_primary());
  }
  ASSIGN_OR_RETURN(node, parse_postfix(std::move(node)));
  if (with_filter) return parse_filters(std::move(node));
  return node;
}

Result<ExprPtr> ExpressionParser::parse_primary() {
  const Token& token = stream_.current();
  ExprPtr node = make(ExprKind::kLiteral, token.line);
  if (token.kind == TokenKind::kName) {
    const std::string& name = token.text;
    if (name == "true" || name == "True" || name == "false" || name == "False") {
      node->literal = Value(name == "true" || name == "True");
    } else if (name != "none" && name != "None") {
      node->kind = ExprKind::kName;
      node->text = name;
    }
    stream_.next();
    return node;
  }
  if (token.kind == TokenKind::kString) {
    std::string text;
    for (; stream_.is(TokenKind::kString); stream_.next()) text += stream_.current().text;
    node->literal = Value(std::move(text));
    return node;
  }
  if (token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat) return parse_number();
  if (stream_.is_op("(")) return parse_parenthesis();
  if (stream_.is_op("[")) return parse_list();
  if (stream_.is_op("{")) return parse_dict();
  return stream_.unexpected("an expression");
}

Result<ExprPtr> ExpressionParser::parse_number() {
  const Token& token = stream_.current();
  ExprPtr node = make(ExprKind::kLiteral, token.line);
  std::string_view digits = token.text;
  std::errc failure{};
  const char* end = nullptr;
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    std::tie(end, failure) = std::pair(parsed.ptr, parsed.ec);
    node->literal = Value(value);
  } else {
    int base = 10;
    if (digits.size() > 1 && digits[0] == '0' && digits[1] > '9') {
      base = digits[1] == 'x' ? 16 : (digits[1] == 'o' ? 8 : 2);
      digits.remove_prefix(2);
    }
    int64_t value = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    std::tie(end, failure) = std::pair(parsed.ptr, parsed.ec);
    node->literal = Value(value);
  }
  if (failure != std::errc() || end != digits.data() + digits.size()) {
    return stream_.error("number '" + token.text + "' does not fit 64 bits");
  }
  stream_.next();
  return node;
}

Result<ExprPtr> ExpressionParser::parse_parenthesis() {
  const int line = stream_.line();
  stream_.next();
  if (stream_.skip_op(")")) return make(ExprKind::kTuple, line);
  ASSIGN_OR_RETURN(ExprPtr node, parse_tuple());
  TRY(stream_.expect_op(")"));
  return node;
}

Result<ExprPtr> ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::kList, stream_.line());
  TRY(stream_.expect_op("["));
  while (!stream_.is_op("]")) {
    TRY(add(*node, parse_expression()));
    if (!stream_.skip_op(",")) break;
  }
  TRY(stream_.expect_op("]"));
  return finish(std::move(node));
}

Result<ExprPtr> ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, stream_.line());
  TRY(stream_.expect_op("{"));
  while (!stream_.is_op("}")) {
    TRY(add(*node, parse_expression()));
    TRY(stream_.expect_op(":"));
    TRY(add(*node, parse_expression()));
    if (!stream_.skip_op(",")) break;
  }
  TRY(stream_.expect_op("}"));
  return finish(std::move(node));
}

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
