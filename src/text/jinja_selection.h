// SPDX-License-Identifier: Apache-2.0
// What the sequence filters share: following a dotted attribute path, and keys that ignore case. One
// rendering thread.
#pragma once

#include <vector>

#include "text/jinja_operators.h"

namespace isthmus::jinja {

// The value at PATH, an int or "name.0.other"; null or none is the item itself. A missing part becomes
// `fallback` if that is not null.
Result<Value> follow_path(Runtime& runtime, Value item, const Value* path, const Value* fallback = nullptr);

// follow_path of each item, lower case unless `case_sensitive`.
Result<std::vector<Value>> sort_keys(Runtime& runtime, const std::vector<Value>& items, const Value* path,
                                     bool case_sensitive);

// Positions of `keys` in ascending (or, stably, descending) order; kInvalidArgument if two cannot be ordered.
Result<std::vector<size_t>> sorted_order(Runtime& runtime, const std::vector<Value>& keys, bool reverse);

}  // namespace isthmus::jinja
