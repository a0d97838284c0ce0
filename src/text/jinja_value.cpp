// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_value.h"

#include <algorithm>
#include <limits>

#include "text/jinja_callable.h"
#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

constexpr size_t kScalarWeight = 8;

size_t add_saturating(size_t a, size_t b) {
  const size_t sum = a + b;
  return sum < a ? std::numeric_limits<size_t>::max() : sum;
}

template <typename Container>
Status measure(Container& container, const Value& element) {
  container.depth = std::max(container.depth, 1 + element.depth());
  container.weight = add_saturating(container.weight, add_saturating(element.weight(), sizeof(Value)));
  if (container.depth > kMaxValueDepth) {
    return {Code::kResourceExhausted,
            "value nests deeper than " + std::to_string(kMaxValueDepth) + " levels"};
  }
  return {};
}

bool equal_lists(const List& a, const List& b) {
  return a.tuple == b.tuple && a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

std::string list_repr(const List& list) {
  std::string out(1, list.tuple ? '(' : '[');
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out += ", ";
    out += to_repr(list.items[i]);
  }
  if (list.tuple && list.items.size() == 1) out += ',';
  return out + (list.tuple ? ')' : ']');
}

std::string dict_repr(const Dict& dict) {
  std::string out = "{";
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out += ", ";
    out += to_repr(dict.entries[i].first) + ": " + to_repr(dict.entries[i].second);
  }
  return out + "}";
}

template <typename T>
int order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

}  // namespace

Value Value::undefined(std::string name) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(name))};
  return value;
}

Namespace* Value::as_namespace() const {
  const auto* found = std::get_if<Namespace*>(&data_);
  return found == nullptr ? nullptr : *found;
}
const LoopState* Value::as_loop() const {
  const auto* found = std::get_if<std::shared_ptr<const LoopState>>(&data_);
  return found == nullptr ? nullptr : found->get();
}
const Callable* Value::as_callable() const {
  const auto* found = std::get_if<std::shared_ptr<const Callable>>(&data_);
  return found == nullptr ? nullptr : found->get();
}

bool Value::truthy() const {
  if (is_undefined() || is_none()) return false;
  if (is_bool()) return as_bool();
  if (is_int()) return as_int() != 0;
  if (is_float()) return as_double() != 0;
  if (is_string()) return !str().empty();
  if (is_list()) return !list().items.empty();
  if (is_dict()) return !dict().entries.empty();
  return true;
}

int Value::depth() const {
  if (is_list()) return list().depth;
  if (is_dict()) return dict().depth;
  if (const LoopState* loop = as_loop()) return loop->items->depth + 1;
  if (const Callable* callable = as_callable()) return callable->self.depth() + 1;
  return 0;
}

size_t Value::weight() const {
  if (is_string()) return add_saturating(str().size(), 2);
  if (is_list()) return list().weight;
  if (is_dict()) return dict().weight;
  return kScalarWeight;
}

std::string_view Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_list()) return list().tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (as_namespace() != nullptr) return "Namespace";
  if (as_loop() != nullptr) return "loop";
  return "function";
}

std::string Value::undefined_name() const {
  const auto* found = std::get_if<Undefined>(&data_);
  return found == nullptr || found->name == nullptr ? "" : *found->name;
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [name, value] : entries) {
    if (equal(name, key)) return &value;
  }
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.is_string() && name.str() == key) return &value;
  }
  return nullptr;
}

const Value* Namespace::find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto& [key, old] : attributes) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

Result<Value> make_list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  list->tuple = tuple;
  for (const Value& item : items) TRY(measure(*list, item));
  list->items = std::move(items);
  return Value(std::shared_ptr<const List>(std::move(list)));
}

Result<Value> make_dict(std::vector<std::pair<Value, Value>> entries) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : entries) {
    TRY(measure(*dict, key));
    TRY(measure(*dict, value));
  }
  dict->entries = std::move(entries);
  return Value(std::shared_ptr<const Dict>(std::move(dict)));
}

void put(std::vector<std::pair<Value, Value>>& entries, Value key, Value value) {
  for (auto& [name, old] : entries) {
    if (equal(name, key)) {
      old = std::move(value);
      return;
    }
  }
  entries.emplace_back(std::move(key), std::move(value));
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return a.as_double() == b.as_double();
    return a.as_int() == b.as_int();
  }
  if (a.data_.index() != b.data_.index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (a.is_string()) return a.str() == b.str();
  if (a.is_list()) return &a.list() == &b.list() || equal_lists(a.list(), b.list());
  if (a.is_dict()) return &a.dict() == &b.dict() || equal_dicts(a.dict(), b.dict());
  return a.as_namespace() == b.as_namespace() && a.as_loop() == b.as_loop() &&
         a.as_callable() == b.as_callable();
}

Result<int> compare(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_float() || b.is_float()) return order(a.as_double(), b.as_double());
    return order(a.as_int(), b.as_int());
  }
  if (a.is_string() && b.is_string()) return order(a.str(), b.str());  // UTF-8 bytes order as code points do
  if (a.is_list() && b.is_list() && a.list().tuple == b.list().tuple) {
    const auto& left = a.list().items;
    const auto& right = b.list().items;
    for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal(left[i], right[i])) return compare(left[i], right[i]);
    }
    return order(left.size(), right.size());
  }
  for (const Value* side : {&a, &b}) {
    if (side->is_undefined()) return {Code::kInvalidArgument, side->undefined_name() + " is undefined"};
  }
  return {Code::kInvalidArgument,
          "cannot order " + std::string(a.type_name()) + " and " + std::string(b.type_name())};
}

std::string to_repr(const Value& value) {
  if (value.is_undefined()) return "Undefined";
  return value.is_string() ? python_string_repr(value.str()) : to_text(value);
}

std::string to_text(const Value& value) {
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is_bool()) return value.as_bool() ? "True" : "False";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_float()) return python_float_repr(value.as_double());
  if (value.is_string()) return value.str();
  if (value.is_list()) return list_repr(value.list());
  if (value.is_dict()) return dict_repr(value.dict());
  return "<" + std::string(value.type_name()) + ">";
}

}  // namespace isthmus::jinja
