// SPDX-License-Identifier: Apache-2.0
// Methods of strings, dicts and lists that templates may call. Methods that change their object do not exist,
// as in the reference sandbox. Pure look-up, any thread.
#pragma once

#include <string_view>

#include "text/jinja_callable.h"

namespace isthmus::jinja {

// Null when values of that kind have no such method.
NativeFn find_method(const Value& value, std::string_view name);

}  // namespace isthmus::jinja
