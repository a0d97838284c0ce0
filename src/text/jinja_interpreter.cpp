// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_interpreter.h"

#include "text/jinja_globals.h"
#include "text/jinja_operators.h"

namespace isthmus::jinja {

void Scope::set(std::string_view name, Value value) {
  for (auto& [known, old] : variables) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

Result<std::string> render(const Block& block, const Variables& variables, const Limits& limits,
                           const Clock& clock) {
  Runtime runtime(limits, clock);
  auto scope = std::make_shared<Scope>();
  for (const auto& [name, function] : global_functions()) {
    auto callable = std::make_shared<Callable>();
    callable->name = std::string(name);
    callable->native = function;
    scope->set(name, Value(std::shared_ptr<const Callable>(std::move(callable))));
  }
  for (const auto& [name, value] : variables) scope->set(name, value);
  return Interpreter(runtime, std::move(scope)).run(block);
}

Status Interpreter::locate(Status status, int line) {
  if (status.ok() || located_) return status;
  located_ = true;
  return {status.code(), "line " + std::to_string(line) + ": " + status.message()};
}

Result<std::string> Interpreter::run(const Block& block) {
  TRY(execute(block).status());
  return std::move(output_);
}

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
  for (const auto& stmt : block) {
    ASSIGN_OR_RETURN(const Flow flow, execute(*stmt));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::execute(const Stmt& stmt) {
  if (Status spent = runtime_.step(); !spent.ok()) return locate(spent, stmt.line);
  if (Status deep = runtime_.enter(); !deep.ok()) return locate(deep, stmt.line);
  Result<Flow> flow = dispatch(stmt);
  runtime_.leave();
  if (!flow.ok()) return locate(flow.status(), stmt.line);
  return flow;
}

Result<Interpreter::Flow> Interpreter::dispatch(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kData:
      TRY(write(stmt.text));
      return Flow::kNext;
    case StmtKind::kOutput: {
      ASSIGN_OR_RETURN(const Value value, evaluate(*stmt.expr));
      if (value.is_string()) {
        TRY(write(value.str()));
      } else {
        ASSIGN_OR_RETURN(const std::string text, text_of(runtime_, value));
        TRY(write(text));
      }
      return Flow::kNext;
    }
    case StmtKind::kIf:
      return execute_if(stmt);
    case StmtKind::kFor:
      return execute_for(stmt);
    case StmtKind::kSet: {
      ASSIGN_OR_RETURN(const Value value, evaluate(*stmt.expr));
      TRY(assign(stmt.target, value));
      return Flow::kNext;
    }
    case StmtKind::kBlockSet:
      return execute_block_set(stmt);
    case StmtKind::kWith:
      return execute_with(stmt);
    case StmtKind::kMacro:
      scope_->set(stmt.text, macro_value(stmt));
      return Flow::kNext;
    case StmtKind::kCallBlock:
      TRY(execute_call_block(stmt));
      return Flow::kNext;
    case StmtKind::kFilterBlock:
      return execute_filter_block(stmt);
    case StmtKind::kScope:
      return execute_scoped(stmt.body);
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Interpreter::write(std::string_view text) {
  TRY(out_ == &output_ ? runtime_.output(text.size()) : runtime_.work(text.size()));
  out_->append(text);
  return {};
}

std::shared_ptr<Scope> Interpreter::inner_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

Result<Interpreter::Flow> Interpreter::execute_scoped(const Block& block) {
  scope_ = inner_scope();
  ASSIGN_OR_RETURN(const Flow flow, execute(block));
  scope_ = scope_->parent;
  return flow;
}

Result<Interpreter::Flow> Interpreter::capture(const Block& block, std::string& out) {
  std::string* const outer = std::exchange(out_, &out);
  ASSIGN_OR_RETURN(const Flow flow, execute_scoped(block));
  out_ = outer;
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (branch.test != nullptr) {
      ASSIGN_OR_RETURN(const Value value, evaluate(*branch.test));
      if (!value.truthy()) continue;
    }
    return execute(branch.body);
  }
  return Flow::kNext;
}

Result<std::shared_ptr<const List>> Interpreter::loop_items(const Stmt& stmt) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*stmt.expr));
  ASSIGN_OR_RETURN(auto items, iterate(runtime_, value));
  if (stmt.test == nullptr) return items;
  auto kept = std::make_shared<List>();
  kept->depth = items->depth;
  for (const Value& item : items->items) {
    TRY(runtime_.iterate());
    scope_ = inner_scope();
    TRY(assign(stmt.target, item));
    ASSIGN_OR_RETURN(const Value holds, evaluate(*stmt.test));
    scope_ = scope_->parent;
    if (holds.truthy()) kept->items.push_back(item);
  }
  return std::shared_ptr<const List>(std::move(kept));
}

Result<Interpreter::Flow> Interpreter::execute_for(const Stmt& stmt) {
  ASSIGN_OR_RETURN(const auto items, loop_items(stmt));
  if (items->items.empty()) return execute_scoped(stmt.orelse);
  for (size_t i = 0; i < items->items.size(); ++i) {
    TRY(runtime_.iterate());
    scope_ = inner_scope();
    auto loop = std::make_shared<LoopState>();
    loop->items = items;
    loop->index0 = i;
    scope_->set("loop", Value(std::shared_ptr<const LoopState>(std::move(loop))));
    TRY(assign(stmt.target, items->items[i]));
    ASSIGN_OR_RETURN(const Flow flow, execute(stmt.body));
    scope_ = scope_->parent;
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Status Interpreter::assign(const Target& target, const Value& value) {
  if (!target.members.empty()) {
    ASSIGN_OR_RETURN(const auto items, iterate(runtime_, value));
    if (items->items.size() != target.members.size()) {
      return {Code::kInvalidArgument, "expected " + std::to_string(target.members.size()) +
                                          " values to unpack, got " + std::to_string(items->items.size())};
    }
    for (size_t i = 0; i < target.members.size(); ++i) TRY(assign(target.members[i], items->items[i]));
    return {};
  }
  if (target.attribute.empty()) {
    scope_->set(target.name, value);
    return {};
  }
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, holder] : scope->variables) {
      if (name != target.name) continue;
      if (Namespace* ns = holder.as_namespace()) {
        ns->set(target.attribute, value);
        return {};
      }
      return {Code::kInvalidArgument, "cannot assign to an attribute of '" + target.name + "', a " +
                                          std::string(holder.type_name()) + ", only of a namespace"};
    }
  }
  return {Code::kInvalidArgument, "'" + target.name + "' is undefined"};
}

Result<Value> Interpreter::apply_filters(const Stmt& stmt, Value value) {
  for (const ExprPtr& filter : stmt.filters) {
    ASSIGN_OR_RETURN(value, evaluate_filter(*filter, value));
  }
  return value;
}

Result<Interpreter::Flow> Interpreter::execute_block_set(const Stmt& stmt) {
  std::string text;
  ASSIGN_OR_RETURN(const Flow flow, capture(stmt.body, text));
  if (flow != Flow::kNext) return flow;
  ASSIGN_OR_RETURN(const Value value, apply_filters(stmt, Value(std::move(text))));
  TRY(assign(stmt.target, value));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_filter_block(const Stmt& stmt) {
  std::string text;
  ASSIGN_OR_RETURN(const Flow flow, capture(stmt.body, text));
  if (flow != Flow::kNext) return flow;
  ASSIGN_OR_RETURN(const Value value, apply_filters(stmt, Value(std::move(text))));
  ASSIGN_OR_RETURN(const std::string filtered, text_of(runtime_, value));
  TRY(write(filtered));
  return flow;
}

Result<Interpreter::Flow> Interpreter::execute_with(const Stmt& stmt) {
  auto scope = inner_scope();
  for (const auto& [name, expr] : stmt.params) {  // each value sees the outer scope only
    ASSIGN_OR_RETURN(Value value, evaluate(*expr));
    scope->set(name, std::move(value));
  }
  scope_ = std::move(scope);
  ASSIGN_OR_RETURN(const Flow flow, execute(stmt.body));
  scope_ = scope_->parent;
  return flow;
}

Value Interpreter::macro_value(const Stmt& stmt) const {
  auto callable = std::make_shared<Callable>();
  callable->name = stmt.text;
  callable->macro = &stmt;
  callable->closure = scope_;
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

Status Interpreter::execute_call_block(const Stmt& stmt) {
  const Value caller = macro_value(stmt);
  ASSIGN_OR_RETURN(const Value value, evaluate_call(*stmt.expr, &caller));
  ASSIGN_OR_RETURN(const std::string text, text_of(runtime_, value));
  return write(text);
}

}  // namespace isthmus::jinja
