// SPDX-License-Identifier: Apache-2.0
// Strict URLs, the only kind a configured peer may have: http(s)://host[:port][/path][?query]. Values, any
// thread. Not a general URL library: user names, fragments, other schemes and relative references are
// refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace isthmus {

struct HostPort {
  std::string host;  // lower case; an IPv6 literal stands without its brackets
  uint16_t port = 0;

  std::string to_string() const;  // "host:port", "[::1]:port"
};

struct Url {
  std::string scheme;      // "http" or "https"
  std::string host;        // as in HostPort
  uint16_t port = 0;       // the scheme's default when the text names none
  std::string path = "/";  // raw (still percent-encoded), begins with '/'
  std::string query;       // raw, without '?'

  bool tls() const { return scheme == "https"; }
  std::string target() const;     // "/path?query", as in a request line
  std::string authority() const;  // Host header value: the port only if it is not the scheme's default
  std::string to_string() const;
};

// kInvalidArgument: "url: expected …, got …".
Result<Url> parse_url(std::string_view text);

// "host", "host:port", "[v6]:port". Without a port in the text, default_port is taken; if there is none, it
// is an error.
Result<HostPort> parse_host_port(std::string_view text, std::optional<uint16_t> default_port = std::nullopt);

// True for "localhost", 127.0.0.0/8 and ::1 (a name without brackets or port, any case). Names are not
// resolved.
bool is_loopback_host(std::string_view host);

// "%41b" -> "Ab". A truncated or non-hexadecimal escape is kInvalidArgument. '+' stays '+'.
Result<std::string> percent_decode(std::string_view text);

}  // namespace isthmus
