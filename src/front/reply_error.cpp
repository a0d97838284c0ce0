// SPDX-License-Identifier: Apache-2.0
#include "front/reply_error.h"

#include "base/log.h"

namespace isthmus {

void send_json(HttpResponder& responder, int status, const Json& body, const HttpHeaders& headers) {
  const Status sent = responder.send(status, "application/json", dump_json(body), headers);
  if (!sent.ok()) log_debug("front: reply not sent: {}", sent.to_string());
}

void send_api_error(HttpResponder& responder, const ApiError& error, HttpHeaders headers) {
  const int status = http_status_of(error);
  if (status == 429 || status == 503) headers.add("Retry-After", "1");
  if (status == 401) headers.add("WWW-Authenticate", "Bearer");
  if (status >= 500 && status != 501) log_error("front: {} for {}", status, error.status.to_string());
  send_json(responder, status, error_json(error), headers);
}

HttpHeaders with_verdict(HttpHeaders headers, const Verdict& verdict) {
  headers.add(kVerdictHeader, verdict.header());
  return headers;
}

}  // namespace isthmus
