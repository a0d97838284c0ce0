// SPDX-License-Identifier: Apache-2.0
// The filters, by name: VALUE | NAME(args). Each charges what it builds to the runtime and answers
// kInvalidArgument where the reference raises. Filters that yield a generator there yield a list here. Pure
// look-up, any thread.
#pragma once

#include <string_view>

#include "text/jinja_callable.h"

namespace isthmus::jinja {

using FilterFn = NativeFn;

FilterFn find_filter(std::string_view name);  // null if there is none

// The three parts of the table, one per source file; null if not there.
FilterFn find_string_filter(std::string_view name);
FilterFn find_sequence_filter(std::string_view name);
FilterFn find_selection_filter(std::string_view name);

}  // namespace isthmus::jinja
