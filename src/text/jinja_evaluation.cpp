// SPDX-License-Identifier: Apache-2.0
// The expression half of Interpreter.
#include <array>

#include "text/jinja_interpreter.h"
#include "text/jinja_operators.h"

namespace isthmus::jinja {

Result<Value> Interpreter::evaluate(const Expr& expr) {
  if (Status spent = runtime_.step(); !spent.ok()) return locate(spent, expr.line);
  if (expr.kind == ExprKind::kLiteral) return expr.literal;
  if (expr.kind == ExprKind::kName) return look_up(expr);
  if (Status deep = runtime_.enter(); !deep.ok()) return locate(deep, expr.line);
  Result<Value> value = dispatch(expr);
  runtime_.leave();
  if (!value.ok()) return locate(value.status(), expr.line);
  return value;
}

Result<Value> Interpreter::dispatch(const Expr& expr) {
  using Rule = Result<Value> (Interpreter::*)(const Expr&);
  static constexpr auto kRules = [] {
    std::array<Rule, static_cast<size_t>(ExprKind::kTest) + 1> rules{};
    const auto set = [&](ExprKind kind, Rule rule) { rules[static_cast<size_t>(kind)] = rule; };
    set(ExprKind::kList, &Interpreter::evaluate_sequence);
    set(ExprKind::kTuple, &Interpreter::evaluate_sequence);
    set(ExprKind::kDict, &Interpreter::evaluate_dict);
    set(ExprKind::kChain, &Interpreter::evaluate_chain);
    set(ExprKind::kCompare, &Interpreter::evaluate_compare);
    set(ExprKind::kAnd, &Interpreter::evaluate_logic);
    set(ExprKind::kOr, &Interpreter::evaluate_logic);
    set(ExprKind::kNot, &Interpreter::evaluate_sign);
    set(ExprKind::kNegate, &Interpreter::evaluate_sign);
    set(ExprKind::kPlus, &Interpreter::evaluate_sign);
    set(ExprKind::kCondition, &Interpreter::evaluate_condition);
    set(ExprKind::kAttribute, &Interpreter::evaluate_access);
    set(ExprKind::kItem, &Interpreter::evaluate_access);
    set(ExprKind::kSlice, &Interpreter::evaluate_slice);
    set(ExprKind::kCall, &Interpreter::evaluate_plain_call);
    set(ExprKind::kFilter, &Interpreter::evaluate_filtered);
    set(ExprKind::kTest, &Interpreter::evaluate_test);
    return rules;
  }();
  const Rule rule = kRules[static_cast<size_t>(expr.kind)];
  return (this->*rule)(expr);  // literals and names, which have none, do not come here
}

Result<Value> Interpreter::evaluate_plain_call(const Expr& expr) {
  return evaluate_call(expr, nullptr);
}

Result<Value> Interpreter::evaluate_filtered(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value input, evaluate(*expr.children[0]));
  return evaluate_filter(expr, input);
}

Value Interpreter::look_up(const Expr& expr) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == expr.text) return value;
    }
  }
  return Value::undefined("'" + expr.text + "'");
}

Result<Value> Interpreter::evaluate_sequence(const Expr& expr) {
  std::vector<Value> items;
  for (const ExprPtr& child : expr.children) {
    ASSIGN_OR_RETURN(Value item, evaluate(*child));
    items.push_back(std::move(item));
  }
  return new_list(runtime_, std::move(items), expr.kind == ExprKind::kTuple);
}

Result<Value> Interpreter::evaluate_dict(const Expr& expr) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    ASSIGN_OR_RETURN(Value key, evaluate(*expr.children[i]));
    ASSIGN_OR_RETURN(Value value, evaluate(*expr.children[i + 1]));
    if (key.is_dict() || (key.is_list() && !key.list().tuple)) {
      return Status(Code::kInvalidArgument, "a " + std::string(key.type_name()) + " cannot be a key");
    }
    TRY(runtime_.work(key.weight() + 2 * sizeof(Value)));
    put(entries, std::move(key), std::move(value));
  }
  return make_dict(std::move(entries));
}

Result<Value> Interpreter::evaluate_chain(const Expr& expr) {
  ASSIGN_OR_RETURN(Value left, evaluate(*expr.children[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    ASSIGN_OR_RETURN(const Value right, evaluate(*expr.children[i + 1]));
    ASSIGN_OR_RETURN(left, apply_operator(runtime_, expr.ops[i], left, right));
  }
  return left;
}

Result<Value> Interpreter::evaluate_compare(const Expr& expr) {
  ASSIGN_OR_RETURN(Value left, evaluate(*expr.children[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, evaluate(*expr.children[i + 1]));
    ASSIGN_OR_RETURN(const bool holds, apply_comparison(runtime_, expr.ops[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::evaluate_logic(const Expr& expr) {
  const bool stops_at = expr.kind == ExprKind::kOr;
  Value value;
  for (const ExprPtr& child : expr.children) {
    ASSIGN_OR_RETURN(value, evaluate(*child));
    if (value.truthy() == stops_at) break;
  }
  return value;
}

Result<Value> Interpreter::evaluate_sign(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0]));
  if (expr.kind == ExprKind::kNot) return Value(!value.truthy());
  if (expr.kind == ExprKind::kNegate) return negate(value);
  if (!value.is_number()) return negate(value);  // the same complaint
  return value.is_bool() ? Value(value.as_int()) : value;
}

Result<Value> Interpreter::evaluate_condition(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value test, evaluate(*expr.children[0]));
  if (test.truthy()) return evaluate(*expr.children[1]);
  if (expr.children[2] != nullptr) return evaluate(*expr.children[2]);
  return Value::undefined("an inline if without else, whose condition is false,");
}

Result<Value> Interpreter::evaluate_access(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0]));
  if (expr.kind == ExprKind::kAttribute) return get_attribute(runtime_, value, expr.text);
  ASSIGN_OR_RETURN(const Value key, evaluate(*expr.children[1]));
  return get_item(runtime_, value, key);
}

Result<Value> Interpreter::evaluate_slice(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0]));
  SliceBounds bounds;
  std::optional<int64_t>* const slots[] = {&bounds.start, &bounds.stop, &bounds.step};
  for (size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(const Value bound, evaluate(*expr.children[i + 1]));
    if (bound.is_int() || bound.is_bool()) {
      *slots[i] = bound.as_int();
    } else if (!bound.is_none()) {
      return Status(Code::kInvalidArgument,
                    "a slice bound is an integer or none, not " + std::string(bound.type_name()));
    }
  }
  return get_slice(runtime_, value, bounds);
}

Result<CallArgs> Interpreter::evaluate_arguments(const Expr& expr) {
  CallArgs args;
  for (size_t i = 1; i < expr.children.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, evaluate(*expr.children[i]));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, child] : expr.kwargs) {
    ASSIGN_OR_RETURN(Value value, evaluate(*child));
    args.named.emplace_back(name, std::move(value));
  }
  return args;
}

Result<Value> Interpreter::evaluate_filter(const Expr& expr, const Value& input) {
  ASSIGN_OR_RETURN(const CallArgs args, evaluate_arguments(expr));
  Result<Value> value = expr.filter(runtime_, input, args);
  if (!value.ok()) return locate(value.status(), expr.line);
  return value;
}

Result<Value> Interpreter::evaluate_test(const Expr& expr) {
  ASSIGN_OR_RETURN(const Value value, evaluate(*expr.children[0]));
  ASSIGN_OR_RETURN(const CallArgs args, evaluate_arguments(expr));
  ASSIGN_OR_RETURN(const bool holds, expr.predicate(runtime_, value, args));
  return Value(holds);
}

Result<Value> Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  ASSIGN_OR_RETURN(const Value callee, evaluate(*expr.children[0]));
  ASSIGN_OR_RETURN(CallArgs args, evaluate_arguments(expr));
  if (caller != nullptr) args.named.emplace_back("caller", *caller);
  return call(callee, args);
}

Result<Value> Interpreter::call(const Value& callee, const CallArgs& args) {
  const Callable* callable = callee.as_callable();
  if (callable == nullptr) {
    if (callee.is_undefined()) return undefined_error(callee);
    return Status(Code::kInvalidArgument, "a " + std::string(callee.type_name()) + " cannot be called");
  }
  if (callable->macro != nullptr) return call_macro(*callable, args);
  return callable->native(runtime_, callable->self, args);
}

Result<Value> Interpreter::call_macro(const Callable& callable, const CallArgs& args) {
  auto frame = std::make_shared<Scope>();
  frame->parent = callable.closure.lock();
  if (frame->parent == nullptr) {
    return Status(Code::kUnsupported,
                  "macro '" + callable.name + "' is called outside the block that defines it");
  }
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(frame));
  TRY(bind_parameters(callable, args));
  std::string text;
  std::string* const outer_out = std::exchange(out_, &text);
  TRY(execute(callable.macro->body).status());
  out_ = outer_out;
  scope_ = outer;
  return Value(std::move(text));
}

// Into the current scope, where defaults may refer to earlier parameters.
Status Interpreter::bind_parameters(const Callable& callable, const CallArgs& args) {
  const auto& params = callable.macro->params;
  const auto fail = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, "macro '" + callable.name + "': " + what);
  };
  if (args.positional.size() > params.size()) {
    return fail("expected at most " + std::to_string(params.size()) + " arguments, got " +
                std::to_string(args.positional.size()));
  }
  size_t used = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const auto& [name, fallback] = params[i];
    const Value* given = i < args.positional.size() ? &args.positional[i] : nullptr;
    for (const auto& [named, value] : args.named) {
      if (named != name) continue;
      if (given != nullptr) return fail("argument '" + name + "' given twice");
      given = &value;
      ++used;
    }
    Value value = given != nullptr ? *given : Value::undefined("parameter '" + name + "'");
    if (given == nullptr && fallback != nullptr) {
      ASSIGN_OR_RETURN(value, evaluate(*fallback));
    }
    scope_->set(name, std::move(value));
  }
  for (const auto& [named, value] : args.named) {
    if (named != "caller" || used == args.named.size()) continue;
    scope_->set("caller", value);
    ++used;
  }
  if (used != args.named.size()) return fail("unknown named argument");
  return {};
}

}  // namespace isthmus::jinja
