// SPDX-License-Identifier: Apache-2.0
// Callable: what a template can call (macro, global function, method bound to its value), and the arguments
// of a call. Owned by the values that hold it; a macro only observes the scope it was defined in, so no cycle
// can form. One rendering thread at a time.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/jinja_value.h"

namespace isthmus::jinja {

class Runtime;
struct Scope;
struct Stmt;

struct CallArgs {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // One slot per parameter name, null where not given. kInvalidArgument "FUNCTION: ..." for a surplus,
  // unknown or doubled argument. The pointers live as long as these arguments.
  Result<std::vector<const Value*>> bind(std::string_view function,
                                         std::initializer_list<std::string_view> parameters) const;
};

using NativeFn = Result<Value> (*)(Runtime& runtime, const Value& self, const CallArgs& args);

struct Callable {
  std::string name;
  NativeFn native = nullptr;     // global functions and methods
  Value self;                    // what a method is bound to
  const Stmt* macro = nullptr;   // macros and call blocks; owned by the template
  std::weak_ptr<Scope> closure;  // where the macro was defined
};

}  // namespace isthmus::jinja
