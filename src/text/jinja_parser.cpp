// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_parser.h"

#include <initializer_list>
#include <utility>

#include "text/jinja_expression_parser.h"
#include "text/jinja_lexer.h"
#include "text/jinja_token_stream.h"

namespace isthmus::jinja {
namespace {

using StmtPtr = std::unique_ptr<Stmt>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Result<Block> run() {
    Block block;
    TRY(parse_block(block, {}));
    return block;
  }

 private:
  using Rule = Status (Parser::*)(Stmt&);

  // Statements up to a tag named in `ends`, whose name is left as the current token; up to the end if empty.
  Status parse_block(Block& block, std::initializer_list<std::string_view> ends) {
    TokenStream::Level level(stream_);
    TRY(level.check());
    while (!stream_.is(TokenKind::kEnd)) {
      if (stream_.is(TokenKind::kBlockBegin)) {
        stream_.next();
        for (std::string_view end : ends) {
          if (stream_.is_name(end)) return {};
        }
        ASSIGN_OR_RETURN(StmtPtr tag, parse_tag());
        block.push_back(std::move(tag));
      } else {
        ASSIGN_OR_RETURN(StmtPtr output, parse_output());
        block.push_back(std::move(output));
      }
    }
    if (ends.size() == 0) return {};
    return stream_.unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
  }

  Result<StmtPtr> parse_output() {
    auto stmt = std::make_unique<Stmt>();
    stmt->line = stream_.line();
    if (stream_.is(TokenKind::kData)) {
      stmt->text = stream_.current().text;
      stream_.next();
      return stmt;
    }
    stmt->kind = StmtKind::kOutput;
    TRY(stream_.expect(TokenKind::kVariableBegin));
    ASSIGN_OR_RETURN(stmt->expr, expressions_.parse_tuple());
    TRY(stream_.expect(TokenKind::kVariableEnd));
    return stmt;
  }

  Result<StmtPtr> parse_tag() {
    static constexpr std::pair<std::string_view, Rule> kTags[] = {
        {"if", &Parser::parse_if},         {"for", &Parser::parse_for},
        {"set", &Parser::parse_set},       {"with", &Parser::parse_with},
        {"macro", &Parser::parse_macro},   {"call", &Parser::parse_call},
        {"filter", &Parser::parse_filter}, {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_jump},    {"continue", &Parser::parse_jump},
    };
    auto stmt = std::make_unique<Stmt>();
    stmt->line = stream_.line();
    if (!stream_.is(TokenKind::kName)) return stream_.unexpected("a tag name");
    for (const auto& [name, rule] : kTags) {
      if (!stream_.is_name(name)) continue;
      TRY((this->*rule)(*stmt));
      return stmt;
    }
    return stream_.error("unknown tag '" + stream_.current().text + "'", Code::kUnsupported);
  }

  // Reads "NAME %}", the rest of a tag that parse_block stopped at.
  Status finish_end_tag(std::string_view name) {
    TRY(stream_.expect_name(name));
    return stream_.expect(TokenKind::kBlockEnd);
  }

  // "%} body {% END %}"
  Status parse_body(Block& body, std::string_view end) {
    TRY(stream_.expect(TokenKind::kBlockEnd));
    TRY(parse_block(body, {end}));
    return finish_end_tag(end);
  }

  Status parse_if(Stmt& stmt) {
    stmt.kind = StmtKind::kIf;
    while (stream_.is_name("if") || stream_.is_name("elif")) {
      stream_.next();
      Branch& branch = stmt.branches.emplace_back();
      ASSIGN_OR_RETURN(branch.test, expressions_.parse_tuple(false));
      TRY(stream_.expect(TokenKind::kBlockEnd));
      TRY(parse_block(branch.body, {"elif", "else", "endif"}));
    }
    if (stream_.skip_name("else")) return parse_body(stmt.branches.emplace_back().body, "endif");
    return finish_end_tag("endif");
  }

  Status parse_for(Stmt& stmt) {
    stmt.kind = StmtKind::kFor;
    stream_.next();
    TRY(parse_target(stmt.target));
    TRY(stream_.expect_name("in"));
    ASSIGN_OR_RETURN(stmt.expr, expressions_.parse_tuple(false));
    if (stream_.skip_name("if")) {
      ASSIGN_OR_RETURN(stmt.test, expressions_.parse_expression());
    }
    if (stream_.is_name("recursive"))
      return stream_.error("recursive loops are not supported", Code::kUnsupported);
    TRY(stream_.expect(TokenKind::kBlockEnd));
    ++loops_;
    TRY(parse_block(stmt.body, {"else", "endfor"}));
    --loops_;
    if (stream_.skip_name("else")) return parse_body(stmt.orelse, "endfor");
    return finish_end_tag("endfor");
  }

  Status parse_single_target(Target& target) {
    if (stream_.skip_op("(")) {
      TRY(parse_target(target));
      return stream_.expect_op(")");
    }
    for (std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
      if (stream_.is_name(word)) return stream_.unexpected("a name that can be assigned");
    }
    ASSIGN_OR_RETURN(target.name, stream_.take_name());
    if (stream_.skip_op(".")) {
      ASSIGN_OR_RETURN(target.attribute, stream_.take_name());
    }
    return {};
  }

  Status parse_target(Target& target) {
    TokenStream::Level level(stream_);
    TRY(level.check());
    Target first;
    TRY(parse_single_target(first));
    if (!stream_.is_op(",")) {
      target = std::move(first);
      return {};
    }
    target.members.push_back(std::move(first));
    while (stream_.skip_op(",")) {
      if (stream_.is_name("in") || stream_.is_op("=") || stream_.is_op(")")) break;
      TRY(parse_single_target(target.members.emplace_back()));
    }
    return {};
  }

  Status parse_set(Stmt& stmt) {
    stmt.kind = StmtKind::kSet;
    stream_.next();
    TRY(parse_target(stmt.target));
    if (stream_.skip_op("=")) {
      ASSIGN_OR_RETURN(stmt.expr, expressions_.parse_tuple());
      return stream_.expect(TokenKind::kBlockEnd);
    }
    stmt.kind = StmtKind::kBlockSet;
    while (stream_.skip_op("|")) TRY(parse_block_filter(stmt));
    return parse_body(stmt.body, "endset");
  }

  Status parse_block_filter(Stmt& stmt) {
    ASSIGN_OR_RETURN(ExprPtr filter, expressions_.parse_detached_filter());
    stmt.filters.push_back(std::move(filter));
    return {};
  }

  Status parse_filter(Stmt& stmt) {
    stmt.kind = StmtKind::kFilterBlock;
    stream_.next();
    TRY(parse_block_filter(stmt));
    while (stream_.skip_op("|")) TRY(parse_block_filter(stmt));
    return parse_body(stmt.body, "endfilter");
  }

  Status parse_with(Stmt& stmt) {
    stmt.kind = StmtKind::kWith;
    stream_.next();
    while (!stream_.is(TokenKind::kBlockEnd)) {
      if (!stmt.params.empty()) TRY(stream_.expect_op(","));
      ASSIGN_OR_RETURN(std::string name, stream_.take_name());
      TRY(stream_.expect_op("="));
      ASSIGN_OR_RETURN(ExprPtr value, expressions_.parse_expression());
      stmt.params.emplace_back(std::move(name), std::move(value));
    }
    return parse_body(stmt.body, "endwith");
  }

  Status parse_parameters(Stmt& stmt) {
    TRY(stream_.expect_op("("));
    while (!stream_.is_op(")")) {
      ASSIGN_OR_RETURN(std::string name, stream_.take_name());
      ExprPtr fallback;
      if (stream_.skip_op("=")) {
        ASSIGN_OR_RETURN(fallback, expressions_.parse_expression());
      } else if (!stmt.params.empty() && stmt.params.back().second != nullptr) {
        return stream_.error("parameter '" + name + "' without a default follows one with a default");
      }
      stmt.params.emplace_back(std::move(name), std::move(fallback));
      if (!stream_.skip_op(",")) break;
    }
    return stream_.expect_op(")");
  }

  // Loops outside do not reach into a macro body.
  Status parse_macro_body(Stmt& stmt, std::string_view end) {
    const int outer = std::exchange(loops_, 0);
    TRY(parse_body(stmt.body, end));
    loops_ = outer;
    return {};
  }

  Status parse_macro(Stmt& stmt) {
    stmt.kind = StmtKind::kMacro;
    stream_.next();
    ASSIGN_OR_RETURN(stmt.text, stream_.take_name());
    TRY(parse_parameters(stmt));
    return parse_macro_body(stmt, "endmacro");
  }

  Status parse_call(Stmt& stmt) {
    stmt.kind = StmtKind::kCallBlock;
    stmt.text = "caller";
    stream_.next();
    if (stream_.is_op("(")) TRY(parse_parameters(stmt));
    ASSIGN_OR_RETURN(stmt.expr, expressions_.parse_expression());
    if (stmt.expr->kind != ExprKind::kCall) return stream_.unexpected("a call");
    return parse_macro_body(stmt, "endcall");
  }

  Status parse_generation(Stmt& stmt) {
    stmt.kind = StmtKind::kScope;
    stream_.next();
    const int outer = std::exchange(loops_, 0);
    TRY(parse_body(stmt.body, "endgeneration"));
    loops_ = outer;
    return {};
  }

  Status parse_jump(Stmt& stmt) {
    const bool is_break = stream_.is_name("break");
    if (loops_ == 0) return stream_.error("'" + stream_.current().text + "' outside a loop");
    stmt.kind = is_break ? StmtKind::kBreak : StmtKind::kContinue;
    stream_.next();
    return stream_.expect(TokenKind::kBlockEnd);
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int loops_ = 0;  // loops around the current tag
};

}  // namespace

Result<Block> parse_template(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace isthmus::jinja
