// SPDX-License-Identifier: Apache-2.0
// The JSON that prefill server and client exchange: calls, reports and errors, written and strictly read in
// one place. Format: docs/formats/prefill-api.md. Pure functions; any thread. No sockets here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "flow/prefill_engine.h"

namespace isthmus {

struct PrefillLimits {
  int64_t vocab = 0;       // token ids are below it
  int64_t max_tokens = 0;  // of a prompt
};

std::string prefill_call_text(const PrefillCall& call);
// Every field is required and no other may be there. kInvalidArgument, naming the field.
Result<PrefillCall> parse_prefill_call(std::string_view text, const PrefillLimits& limits);

std::string prefill_report_text(const PrefillReport& report);
Result<PrefillReport> parse_prefill_report(std::string_view text);

std::string error_text(const Status& error);  // {"error": {"code": "mismatch", "message": "..."}}
int http_status_of(Code code);
// The error that a reply with this status carries; never ok, whatever the text is.
Status parse_error(int http_status, std::string_view text);

}  // namespace isthmus
