// SPDX-License-Identifier: Apache-2.0
#include "front/access.h"

#include "base/hash.h"

namespace isthmus {
namespace {

// Compared as digests, so that neither content nor length shows in the time it takes.
bool is_bearer(std::string_view header, const std::string& token) {
  const Digest got = sha256(header);
  const Digest expected = sha256("Bearer " + token);
  return equal_constant_time(std::as_bytes(std::span(got.bytes)), std::as_bytes(std::span(expected.bytes)));
}

}  // namespace

std::optional<ApiError> check_site(const HttpRequest& request, const OriginPolicy& policy) {
  Status status = check_origin(policy, request.headers.get("Host"), request.headers.get("Origin"));
  if (status.ok()) return std::nullopt;
  const int http = status.code() == Code::kUnauthenticated ? 403 : 400;
  return ApiError{std::move(status), {}, http == 403 ? "forbidden_site" : "", http};
}

std::optional<ApiError> check_token(const HttpRequest& request, const std::string& token) {
  if (request.is_loopback) return std::nullopt;
  if (token.empty()) {
    const Status status(Code::kUnauthenticated, request.path + ": only for this machine (no token is set)");
    return ApiError{status, {}, {}, 403};
  }
  const auto header = request.headers.get("Authorization");
  if (header && request.headers.count("Authorization") == 1 && is_bearer(*header, token)) return std::nullopt;
  const Status status(Code::kUnauthenticated, request.path + ": expected Authorization: Bearer TOKEN");
  return ApiError{status, {}, {}, 401};
}

}  // namespace isthmus
