// SPDX-License-Identifier: Apache-2.0
// Host and Origin check against DNS rebinding and foreign web pages: a browser on this machine must not be
// talked into calling our loopback server. Pure function over header values; not authentication (tokens live
// above).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace isthmus {

struct OriginPolicy {
  // Names (no port) accepted besides loopback ones: the configured host name or LAN address of this server.
  std::vector<std::string> allowed_hosts;
};

// host: value of Host, required. origin: value of Origin, absent for clients that are no browsers. Both must
// name a loopback host or an allowed one, whatever the port; "null" and non-http origins are refused.
// kUnauthenticated for a foreign name, kInvalidArgument for a malformed or missing Host.
Status check_origin(const OriginPolicy& policy, std::optional<std::string_view> host,
                    std::optional<std::string_view> origin);

}  // namespace isthmus
