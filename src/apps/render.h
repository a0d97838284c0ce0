// SPDX-License-Identifier: Apache-2.0
// How tools show a result: one JSON object, printed as it is (--json) or as indented text. Pure but for the
// printing; any thread. Knows nothing about what it shows.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace isthmus {

// "1.5 MiB", "312 bytes".
std::string human_bytes(uint64_t bytes);

// Objects as "name  value" lines, nested ones indented, arrays of objects as tables. Values whose name ends
// with "bytes" are also given in units.
std::string readable(const Json& object, int indent = 0);

// On standard output. `only_json`: fields that are too long for people and left out of the text.
void show(const Json& object, bool as_json, const std::vector<std::string_view>& only_json = {});

}  // namespace isthmus
