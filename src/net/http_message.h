// SPDX-License-Identifier: Apache-2.0
// What HTTP server and client share: header fields, reason phrases, TLS file names. Plain values, no Boost,
// any thread. Knows no route and no body format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace isthmus {

// Header fields in message order. Names compare without case.
class HttpHeaders {
 public:
  HttpHeaders() = default;
  HttpHeaders(std::initializer_list<std::pair<std::string, std::string>> fields) : fields_(fields) {}

  void add(std::string name, std::string value) { fields_.emplace_back(std::move(name), std::move(value)); }
  std::optional<std::string_view> get(std::string_view name) const;  // the first of that name
  size_t count(std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

  // kInvalidArgument unless every name is a token and no value holds a control character (no header
  // injection).
  Status validate() const;

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

bool iequals_ascii(std::string_view a, std::string_view b);  // ASCII letters without case
std::string_view http_reason(int status);  // 404 -> "Not Found"; "Status" for codes not listed

// PEM files. Server: cert and key make it a TLS server; ca additionally demands a client certificate signed
// by it. Client: ca verifies the server (empty: the system's store); cert and key are shown to a server that
// asks.
struct TlsOptions {
  std::string cert_file;
  std::string key_file;
  std::string ca_file;
};

}  // namespace isthmus
