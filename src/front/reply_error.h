// SPDX-License-Identifier: Apache-2.0
// Sends JSON replies and errors on a responder. Stateless; any thread. A client that is gone is no error
// here: nobody is left to tell.
#pragma once

#include "base/json.h"
#include "flow/verdict.h"
#include "front/api_error.h"
#include "net/http_server.h"

namespace isthmus {

void send_json(HttpResponder& responder, int status, const Json& body, const HttpHeaders& headers = {});

// With Retry-After where trying again helps.
void send_api_error(HttpResponder& responder, const ApiError& error, HttpHeaders headers = {});

// `headers` and X-PD-Bridge.
HttpHeaders with_verdict(HttpHeaders headers, const Verdict& verdict);

}  // namespace isthmus
