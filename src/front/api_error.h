// SPDX-License-Identifier: Apache-2.0
// Errors as OpenAI clients expect them: one table from our codes to HTTP status and error type, and the JSON
// object around a message. Values and pure functions; any thread. Decides nothing: whoever fails names the
// code.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace isthmus {

struct ApiError {
  Status status;
  std::string param;    // the request field that is wrong, "messages[0].role"; empty: none
  std::string code;     // empty: the status code's own name
  int http_status = 0;  // 0: as the table says
};

int http_status_of(const ApiError& error);

// {"error":{"message","type","param","code"}}; param is null when empty.
Json error_json(const ApiError& error);

}  // namespace isthmus
