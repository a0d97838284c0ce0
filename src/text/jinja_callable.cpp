// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_callable.h"

#include <algorithm>

namespace isthmus::jinja {

Result<std::vector<const Value*>> CallArgs::bind(std::string_view function,
                                                 std::initializer_list<std::string_view> parameters) const {
  const auto fail = [&](const std::string& what) {
    return Status(Code::kInvalidArgument, std::string(function) + ": " + what);
  };
  std::vector<const Value*> slots(parameters.size(), nullptr);
  if (positional.size() > slots.size()) {
    return fail("expected at most " + std::to_string(slots.size()) + " arguments, got " +
                std::to_string(positional.size()));
  }
  for (size_t i = 0; i < positional.size(); ++i) slots[i] = &positional[i];
  for (const auto& [name, value] : named) {
    const auto hit = std::find(parameters.begin(), parameters.end(), name);
    if (hit == parameters.end()) return fail("no argument named '" + name + "'");
    const Value*& slot = slots[static_cast<size_t>(hit - parameters.begin())];
    if (slot != nullptr) return fail("argument '" + name + "' given twice");
    slot = &value;
  }
  return slots;
}

}  // namespace isthmus::jinja
