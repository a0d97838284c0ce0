// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_expression_parser.h"

#include <algorithm>
#include <charconv>

#include "text/jinja_parser.h"

namespace isthmus::jinja {
namespace {

using OpTable = std::vector<std::pair<std::string_view, Op>>;

}  // namespace

Status ExpressionParser::add(Expr& node, Result<ExprPtr> child) {
  if (!child.ok()) return child.status();
  node.children.push_back(child.take());
  return {};
}

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
  if (stream_.is(TokenKind::kName)) return parse_word();
  if (stream_.is(TokenKind::kInteger) || stream_.is(TokenKind::kFloat)) return parse_number();
  if (stream_.is_op("(")) return parse_parenthesis();
  if (stream_.is_op("[")) return parse_list();
  if (stream_.is_op("{")) return parse_dict();
  if (!stream_.is(TokenKind::kString)) return stream_.unexpected("an expression");
  ExprPtr node = make(ExprKind::kLiteral, stream_.line());
  std::string text;
  for (; stream_.is(TokenKind::kString); stream_.next()) text += stream_.current().text;
  node->literal = Value(std::move(text));
  return node;
}

Result<ExprPtr> ExpressionParser::parse_word() {
  ExprPtr node = make(ExprKind::kLiteral, stream_.line());
  const std::string& name = stream_.current().text;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->literal = Value(name == "true" || name == "True");
  } else if (name != "none" && name != "None") {
    node->kind = ExprKind::kName;
    node->text = name;
  }
  stream_.next();
  return node;
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

}  // namespace isthmus::jinja
