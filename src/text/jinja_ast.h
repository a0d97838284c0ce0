// SPDX-License-Identifier: Apache-2.0
// The parsed template: statements and expressions, each with its source line. Built once by the parser, owned
// by the template, read-only afterwards and so shared by rendering threads. Not the meaning: see
// jinja_interpreter.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_filters.h"
#include "text/jinja_predicates.h"
#include "text/jinja_value.h"

namespace isthmus::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  kLiteral,    // literal
  kName,       // text
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value ...
  kChain,      // children[0] ops[0] children[1] ops[1] ...: one level of + - or * / // % or ** or ~, left to
               // right
  kCompare,    // the same with == != < <= > >= in notin; a < b < c as Python means it
  kAnd,        // children
  kOr,         // children
  kNot,        // children[0]
  kNegate,     // children[0]
  kPlus,       // children[0]
  kCondition,  // children: test, then, else (null if absent)
  kAttribute,  // children[0] . text
  kItem,       // children[0] [ children[1] ]
  kSlice,      // children[0] [ children[1] : children[2] : children[3] ], each bound may be null
  kCall,       // children[0] ( children[1...], kwargs )
  kFilter,     // children[0] | text ( children[1...], kwargs )
  kTest,       // children[0] is text ( children[1...], kwargs )
};

enum class Op {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kConcat,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  int line = 0;
  int depth = 1;  // 1 + the deepest child
  std::string text;
  Value literal;
  std::vector<ExprPtr> children;
  std::vector<std::pair<std::string, ExprPtr>> kwargs;
  std::vector<Op> ops;
  FilterFn filter = nullptr;
  PredicateFn predicate = nullptr;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

enum class StmtKind {
  kData,         // text
  kOutput,       // expr
  kIf,           // branches in order; a null test is the else
  kFor,          // targets, expr, test (may be null), body, orelse
  kSet,          // targets = expr
  kBlockSet,     // targets = body | filters applied in order
  kWith,         // branch of assignments: with_names, with_values; body
  kMacro,        // text(params = defaults) body
  kCallBlock,    // expr is the call; body is its caller(params)
  kFilterBlock,  // filters over body
  kScope,        // body in a scope of its own ({% generation %})
  kBreak,
  kContinue,
};

// What an assignment writes to: a name, an attribute of a namespace, or several at once.
struct Target {
  std::string name;
  std::string attribute;        // empty unless NAME.ATTRIBUTE
  std::vector<Target> members;  // not empty: unpack into these
};

struct Branch {
  ExprPtr test;
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kData;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr test;
  Target target;
  std::vector<Branch> branches;
  Block body;
  Block orelse;
  std::vector<std::pair<std::string, ExprPtr>>
      params;                    // macro parameters with default, null if none; with: name, value
  std::vector<ExprPtr> filters;  // kFilter nodes whose children[0] is null
};

}  // namespace isthmus::jinja
