// SPDX-License-Identifier: Apache-2.0
// Who may ask: Host and Origin of every request, and the token of routes that tell about the model. Pure
// functions; any thread. Not TLS and not the handoff's handshake.
#pragma once

#include <optional>
#include <string>

#include "front/api_error.h"
#include "net/http_server.h"
#include "net/origin.h"

namespace isthmus {

// 403 for a foreign Host or Origin, 400 for a malformed Host.
std::optional<ApiError> check_site(const HttpRequest& request, const OriginPolicy& policy);

// Clients on this machine need no token. 401 for a missing or wrong one, 403 when none is configured.
std::optional<ApiError> check_token(const HttpRequest& request, const std::string& token);

}  // namespace isthmus
