// SPDX-License-Identifier: Apache-2.0
// The tests of the template language, by name: VALUE is NAME(args). Pure look-up, any thread.
#pragma once

#include <string_view>

#include "text/jinja_callable.h"

namespace isthmus::jinja {

using PredicateFn = Result<bool> (*)(Runtime& runtime, const Value& value, const CallArgs& args);

PredicateFn find_predicate(std::string_view name);  // null if there is none

}  // namespace isthmus::jinja
