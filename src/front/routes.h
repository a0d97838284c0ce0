// SPDX-License-Identifier: Apache-2.0
// The route table: method and path to what the front does. Pure function; any thread. HEAD is answered like
// GET.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus {

enum class Route : uint8_t { kChat, kCompletion, kModels, kModel, kIdentity, kProjection, kHealth, kStats };

struct RouteMatch {
  std::optional<Route> route;
  std::string argument;      // what follows the path of kModel, decoded
  std::string_view allowed;  // the path exists, but only with this method
  bool needs_token = false;  // of clients that are not on this machine
};

RouteMatch find_route(std::string_view method, std::string_view path);

}  // namespace isthmus
