// SPDX-License-Identifier: Apache-2.0
// Renders a parsed template. Variables live in a chain of scopes: loops, macros and blocks open one, "if"
// does not, and "set" writes to the innermost. One Interpreter per rendering, on one thread; the template may
// be shared.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "text/jinja_ast.h"
#include "text/jinja_callable.h"
#include "text/jinja_runtime.h"

namespace isthmus::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// "line N: ...": kInvalidArgument for what the reference raises (raise_exception's message included),
// kResourceExhausted when a limit is passed. Variables shadow the global functions.
Result<std::string> render(const Block& block, const Variables& variables, const Limits& limits,
                           const Clock& clock);

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;  // names belong to the template or the caller

  void set(std::string_view name, Value value);
};

class Interpreter {
 public:
  Interpreter(Runtime& runtime, std::shared_ptr<Scope> scope) : runtime_(runtime), scope_(std::move(scope)) {}

  Result<std::string> run(const Block& block);

 private:
  enum class Flow { kNext, kBreak, kContinue };

  // Statements: jinja_interpreter.cpp
  Result<Flow> execute(const Block& block);
  Result<Flow> execute(const Stmt& stmt);
  Result<Flow> dispatch(const Stmt& stmt);
  Result<Flow> execute_if(const Stmt& stmt);
  Result<Flow> execute_for(const Stmt& stmt);
  Result<Flow> execute_scoped(const Block& block);
  Result<Flow> execute_block_set(const Stmt& stmt);
  Result<Flow> execute_filter_block(const Stmt& stmt);
  Result<Flow> execute_with(const Stmt& stmt);
  Status execute_call_block(const Stmt& stmt);
  // The body's output instead of writing it; in a scope of its own.
  Result<Flow> capture(const Block& block, std::string& out);
  Result<std::shared_ptr<const List>> loop_items(const Stmt& stmt);
  Status assign(const Target& target, const Value& value);
  Status write(std::string_view text);
  Value macro_value(const Stmt& stmt) const;
  std::shared_ptr<Scope> inner_scope() const;
  Result<Value> apply_filters(const Stmt& stmt, Value value);

  // Expressions: jinja_evaluation.cpp
  Result<Value> evaluate(const Expr& expr);
  Result<Value> dispatch(const Expr& expr);
  Value look_up(const Expr& expr) const;
  Result<Value> evaluate_sequence(const Expr& expr);
  Result<Value> evaluate_dict(const Expr& expr);
  Result<Value> evaluate_chain(const Expr& expr);
  Result<Value> evaluate_compare(const Expr& expr);
  Result<Value> evaluate_logic(const Expr& expr);
  Result<Value> evaluate_sign(const Expr& expr);
  Result<Value> evaluate_condition(const Expr& expr);
  Result<Value> evaluate_access(const Expr& expr);
  Result<Value> evaluate_slice(const Expr& expr);
  Result<Value> evaluate_call(const Expr& expr, const Value* caller);
  Result<Value> evaluate_plain_call(const Expr& expr);
  Result<Value> evaluate_filtered(const Expr& expr);
  Result<Value> evaluate_filter(const Expr& expr, const Value& input);
  Result<Value> evaluate_test(const Expr& expr);
  Result<CallArgs> evaluate_arguments(const Expr& expr);
  Result<Value> call(const Value& callee, const CallArgs& args);
  Result<Value> call_macro(const Callable& callable, const CallArgs& args);
  Status bind_parameters(const Callable& callable, const CallArgs& args);

  Status locate(Status status, int line);  // names the line, once

  Runtime& runtime_;
  std::shared_ptr<Scope> scope_;
  std::string output_;
  std::string* out_ = &output_;
  bool located_ = false;  // the error under way names its line already
};

}  // namespace isthmus::jinja
