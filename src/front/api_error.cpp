// SPDX-License-Identifier: Apache-2.0
#include "front/api_error.h"

#include <algorithm>
#include <array>

namespace isthmus {
namespace {

struct CodeRow {
  Code code;
  int http_status;
};

constexpr std::array<CodeRow, 12> kCodes = {{
    {Code::kInvalidArgument, 400},
    {Code::kNotFound, 404},
    {Code::kCorrupt, 500},
    {Code::kUnsupported, 501},
    {Code::kMismatch, 500},
    {Code::kUnauthenticated, 401},
    {Code::kResourceExhausted, 429},
    {Code::kUnavailable, 503},
    {Code::kDeadlineExceeded, 504},
    {Code::kCancelled, 499},  // not registered, but what servers write when the client is gone
    {Code::kIo, 500},
    {Code::kInternal, 500},
}};

struct TypeRow {
  int http_status;
  const char* type;
};

constexpr std::array<TypeRow, 8> kTypes = {{
    {401, "authentication_error"},
    {403, "permission_error"},
    {404, "not_found_error"},
    {429, "rate_limit_error"},
    {499, "cancelled_error"},
    {501, "not_supported_error"},
    {503, "unavailable_error"},
    {504, "timeout_error"},
}};

const char* type_of(int http_status) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [=](const TypeRow& r) { return r.http_status == http_status; });
  if (row != kTypes.end()) return row->type;
  return http_status < 500 ? "invalid_request_error" : "server_error";
}

}  // namespace

int http_status_of(const ApiError& error) {
  if (error.http_status != 0) return error.http_status;
  const auto row = std::find_if(kCodes.begin(), kCodes.end(),
                                [&](const CodeRow& r) { return r.code == error.status.code(); });
  return row != kCodes.end() ? row->http_status : 500;
}

Json error_json(const ApiError& error) {
  Json inner;
  inner["message"] = error.status.message();
  inner["type"] = type_of(http_status_of(error));
  inner["param"] = error.param.empty() ? Json() : Json(error.param);
  inner["code"] = error.code.empty() ? std::string(code_name(error.status.code())) : error.code;
  Json out;
  out["error"] = std::move(inner);
  return out;
}

}  // namespace isthmus
