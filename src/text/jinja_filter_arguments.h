// SPDX-License-Identifier: Apache-2.0
// Reading the bound arguments of filters and functions. Pure functions, any thread. Only for the filter
// sources.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/jinja_operators.h"

namespace isthmus::jinja {

inline Result<int64_t> int_or(std::string_view where, const Value* value, int64_t fallback) {
  if (value == nullptr) return fallback;
  if (value->is_int() || value->is_bool()) return value->as_int();
  if (value->is_undefined()) return undefined_error(*value);
  return Status(Code::kInvalidArgument,
                std::string(where) + ": expected int, got " + std::string(value->type_name()));
}

inline bool bool_or(const Value* value, bool fallback) {
  return value == nullptr ? fallback : value->truthy();
}

inline Result<std::string> text_or(Runtime& runtime, const Value* value, std::string_view fallback) {
  if (value == nullptr) return std::string(fallback);
  return text_of(runtime, *value);
}

}  // namespace isthmus::jinja
