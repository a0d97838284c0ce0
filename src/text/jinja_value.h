// SPDX-License-Identifier: Apache-2.0
// Value: what a template variable holds, with Python's printing, truth, equality and order. Lists and dicts
// are shared and never change once made (the reference sandbox forbids it too), so copies are cheap, no cycle
// can form, and each knows how deep it nests; a namespace is the one mutable thing and belongs to the Runtime
// of the rendering. One rendering thread at a time. Not JSON: see jinja_json.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace isthmus::jinja {

class Value;
struct List;
struct Dict;
struct Namespace;
struct LoopState;
struct Callable;

struct Undefined {
  std::shared_ptr<const std::string> name;  // for the error message; may be null
};
struct None {};

class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}     // NOLINT: literals convert freely
  Value(int64_t value) : data_(value) {}  // NOLINT
  Value(double value) : data_(value) {}   // NOLINT
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}  // NOLINT
  Value(std::string_view text) : Value(std::string(text)) {}                                // NOLINT
  Value(const char* text) : Value(std::string(text)) {}                                     // NOLINT
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}                       // NOLINT
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}                       // NOLINT
  Value(Namespace* ns) : data_(ns) {}                                                       // NOLINT
  Value(std::shared_ptr<const LoopState> loop) : data_(std::move(loop)) {}                  // NOLINT
  Value(std::shared_ptr<const Callable> callable) : data_(std::move(callable)) {}           // NOLINT
  static Value undefined(std::string name);

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }  // false for bool
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_string() const { return std::holds_alternative<std::shared_ptr<const std::string>>(data_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<const List>>(data_); }  // tuples too
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }

  // Each requires the matching is_...().
  const std::string& str() const { return *std::get<std::shared_ptr<const std::string>>(data_); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  bool as_bool() const { return std::get<bool>(data_); }
  // int or bool; requires one of them.
  int64_t as_int() const { return is_bool() ? static_cast<int64_t>(as_bool()) : std::get<int64_t>(data_); }
  double as_double() const { return is_float() ? std::get<double>(data_) : static_cast<double>(as_int()); }
  // Null unless the value is of that kind.
  Namespace* as_namespace() const;
  const LoopState* as_loop() const;
  const Callable* as_callable() const;

  bool truthy() const;
  int depth() const;                   // 0 for scalars; 1 + the deepest element for containers
  size_t weight() const;               // about how many bytes printing or comparing it walks; saturates
  std::string_view type_name() const;  // as Python names it, for messages
  std::string undefined_name() const;  // what to call it in a message; "" unless undefined

 private:
  friend bool equal(const Value& a, const Value& b);
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*,
               std::shared_ptr<const LoopState>, std::shared_ptr<const Callable>>
      data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
  size_t weight = 2;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;  // in insertion order, keys distinct
  int depth = 1;
  size_t weight = 2;

  const Value* find(const Value& key) const;  // null if absent
  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;

  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

struct LoopState {
  std::shared_ptr<const List> items;
  size_t index0 = 0;
};

// Containers deeper than this are refused, so that printing, comparing and freeing them cannot exhaust the
// stack.
inline constexpr int kMaxValueDepth = 100;

// kResourceExhausted when the container would nest deeper than kMaxValueDepth.
Result<Value> make_list(std::vector<Value> items, bool tuple = false);
Result<Value> make_dict(std::vector<std::pair<Value, Value>> entries);
// Replaces an equal key's value in place, else appends.
void put(std::vector<std::pair<Value, Value>>& entries, Value key, Value value);

bool equal(const Value& a, const Value& b);
// < 0, 0, > 0; kInvalidArgument where Python raises TypeError.
Result<int> compare(const Value& a, const Value& b);

std::string to_text(const Value& value);  // str(): "" for undefined, True, None, [1, 'a']
std::string to_repr(const Value& value);

}  // namespace isthmus::jinja
