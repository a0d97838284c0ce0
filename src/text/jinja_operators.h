// SPDX-License-Identifier: Apache-2.0
// Operators, attribute and item access, slices, and iteration, as Python and Jinja define them for our
// values. Errors are kInvalidArgument where Python raises, kResourceExhausted for results that are too large.
// One rendering thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"
#include "text/jinja_value.h"

namespace isthmus::jinja {

Status undefined_error(const Value& value);  // "... is undefined"

Result<Value> apply_operator(Runtime& runtime, Op op, const Value& left, const Value& right);
Result<bool> apply_comparison(Runtime& runtime, Op op, const Value& left, const Value& right);
Result<Value> negate(const Value& value);

// VALUE.NAME: a method or attribute first, then an item. Absent: an undefined value, except on an undefined
// value.
Result<Value> get_attribute(Runtime& runtime, const Value& value, std::string_view name);
// VALUE[KEY]: an item first, then (string keys) an attribute.
Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key);

struct SliceBounds {
  std::optional<int64_t> start, stop, step;
};
Result<Value> get_slice(Runtime& runtime, const Value& value, const SliceBounds& bounds);

// The elements of a list, the keys of a dict, the characters of a string; nothing of an undefined value.
Result<std::shared_ptr<const List>> iterate(Runtime& runtime, const Value& value);

// A new string or list, charged to the rendering.
Result<Value> new_string(Runtime& runtime, std::string text);
Result<Value> new_list(Runtime& runtime, std::vector<Value> items, bool tuple = false);
// to_text, charged.
Result<std::string> text_of(Runtime& runtime, const Value& value);

}  // namespace isthmus::jinja
