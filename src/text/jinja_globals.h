// SPDX-License-Identifier: Apache-2.0
// The functions every chat template may call: range, dict, namespace, raise_exception, strftime_now. Pure
// look-up, any thread.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_callable.h"

namespace isthmus::jinja {

const std::vector<std::pair<std::string_view, NativeFn>>& global_functions();

}  // namespace isthmus::jinja
