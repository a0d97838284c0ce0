// SPDX-License-Identifier: Apache-2.0
#include "net/origin.h"

#include <algorithm>

#include "net/url.h"

namespace isthmus {
namespace {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto low = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return low(x) == low(y); });
}

bool is_allowed(const OriginPolicy& policy, std::string_view name) {
  if (is_loopback_host(name)) return true;
  return std::any_of(policy.allowed_hosts.begin(), policy.allowed_hosts.end(),
                     [&](const std::string& allowed) { return equal_ignoring_case(allowed, name); });
}

}  // namespace

Status check_origin(const OriginPolicy& policy, std::optional<std::string_view> host,
                    std::optional<std::string_view> origin) {
  if (!host) return Status(Code::kInvalidArgument, "host: expected a Host header, got none");
  const Result<HostPort> named = parse_host_port(*host, 80);
  if (!named.ok()) return Status(Code::kInvalidArgument, "host: " + named.status().message());
  if (!is_allowed(policy, named->host)) {
    return Status(Code::kUnauthenticated,
                  "host: expected a loopback or configured name, got \"" + named->host + "\"");
  }
  if (!origin) return Status();
  const Result<Url> from = parse_url(*origin);
  // An origin is scheme, host and port only.
  if (!from.ok() || from->path != "/" || !from->query.empty() || !is_allowed(policy, from->host)) {
    const std::string shown = from.ok() ? from->to_string() : "one that is no http(s) origin";
    return Status(Code::kUnauthenticated, "origin: expected a loopback or configured name, got " + shown);
  }
  return Status();
}

}  // namespace isthmus
