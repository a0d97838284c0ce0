// SPDX-License-Identifier: Apache-2.0
// get_attribute of jinja_operators.h.
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"

namespace isthmus::jinja {
namespace {

Value int_value(size_t n) {
  return Value(static_cast<int64_t>(n));
}

Result<Value> loop_cycle(Runtime&, const Value& self, const CallArgs& args) {
  if (args.positional.empty()) return Status(Code::kInvalidArgument, "loop.cycle: no items");
  return args.positional[self.as_loop()->index0 % args.positional.size()];
}

Value bound(std::string_view name, NativeFn method, const Value& self) {
  auto callable = std::make_shared<Callable>();
  callable->name = std::string(name);
  callable->native = method;
  callable->self = self;
  return Value(std::shared_ptr<const Callable>(std::move(callable)));
}

Value neighbour(const std::vector<Value>& items, bool exists, size_t at, std::string_view name) {
  return exists ? items[at] : Value::undefined("'loop." + std::string(name) + "'");
}

Value loop_attribute(const Value& value, std::string_view name) {
  const LoopState& loop = *value.as_loop();
  const auto& items = loop.items->items;
  const size_t at = loop.index0;
  if (name == "index0") return int_value(at);
  if (name == "index") return int_value(at + 1);
  if (name == "first") return Value(at == 0);
  if (name == "last") return Value(at + 1 == items.size());
  if (name == "length") return int_value(items.size());
  if (name == "revindex") return int_value(items.size() - at);
  if (name == "revindex0") return int_value(items.size() - at - 1);
  if (name == "depth0") return int_value(0);  // only recursive loops go deeper
  if (name == "depth") return int_value(1);
  if (name == "previtem") return neighbour(items, at > 0, at - 1, name);
  if (name == "nextitem") return neighbour(items, at + 1 < items.size(), at + 1, name);
  if (name == "cycle") return bound("loop.cycle", loop_cycle, value);
  return Value::undefined("'loop." + std::string(name) + "'");
}

}  // namespace

Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name) {
  TRY(runtime.step());
  if (value.is_undefined()) return undefined_error(value);
  if (NativeFn method = find_method(value, name)) return bound(name, method, value);
  if (value.is_dict()) {
    TRY(runtime.step(value.dict().entries.size() / 8));
    if (const Value* found = value.dict().find(name)) return *found;
  } else if (const Namespace* ns = value.as_namespace()) {
    if (const Value* found = ns->find(name)) return *found;
  } else if (value.as_loop() != nullptr) {
    return loop_attribute(value, name);
  }
  return Value::undefined("'" + std::string(value.type_name()) + "' object attribute '" + std::string(name) +
                          "'");
}

}  // namespace isthmus::jinja
