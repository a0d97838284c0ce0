// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace isthmus {
namespace {

constexpr size_t kMaxUrlBytes = 4096;
constexpr size_t kMaxHostBytes = 253;

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower);
  return out;
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = to_lower(c);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

Status bad(std::string_view expected, std::string_view got) {
  std::string shown(got.substr(0, 80));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return Status(Code::kInvalidArgument, "url: expected " + std::string(expected) + ", got \"" + shown + "\"");
}

Result<uint16_t> parse_port(std::string_view text) {
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end || value == 0 || value > 65535) {
    return bad("a port from 1 to 65535", text);
  }
  return static_cast<uint16_t>(value);
}

bool parse_ipv4(std::string_view host, in_addr& out) {
  return inet_pton(AF_INET, std::string(host).c_str(), &out) == 1;
}

bool parse_ipv6(std::string_view host, in6_addr& out) {
  return inet_pton(AF_INET6, std::string(host).c_str(), &out) == 1;
}

Status check_name(std::string_view host) {
  if (host.empty() || host.size() > kMaxHostBytes) return bad("a host of 1 to 253 bytes", host);
  if (!std::all_of(host.begin(), host.end(),
                   [](char c) { return is_alnum(c) || c == '.' || c == '-' || c == '_'; })) {
    return bad("a host of letters, digits, '.', '-', '_'", host);
  }
  if (host.front() == '-' || host.front() == '.' || host.find("..") != std::string_view::npos) {
    return bad("a host without empty labels", host);
  }
  // All digits and dots reads like an address; then it has to be one ("127.1" and "1.2.3.4.5" are not).
  in_addr unused{};
  const bool numeric =
      std::all_of(host.begin(), host.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  if (numeric && !parse_ipv4(host, unused)) return bad("a dotted IPv4 address", host);
  return Status();
}

// A byte that may stand in a path or query as it is.
bool is_target_char(char c) {
  return c > 0x20 && c < 0x7f && std::string_view("\"<>\\^`{|}#").find(c) == std::string_view::npos;
}

Status check_target(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_target_char(text[i])) return bad("a path of URL characters", text);
    if (text[i] != '%') continue;
    if (i + 2 >= text.size() || hex_value(text[i + 1]) < 0 || hex_value(text[i + 2]) < 0) {
      return bad("two hexadecimal digits after '%'", text.substr(i));
    }
  }
  return Status();
}

std::string bracketed(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

uint16_t default_port_of(std::string_view scheme) {
  return scheme == "https" ? 443 : 80;
}

}  // namespace

std::string HostPort::to_string() const {
  return bracketed(host) + ":" + std::to_string(port);
}

std::string Url::target() const {
  return query.empty() ? path : path + "?" + query;
}

std::string Url::authority() const {
  return port == default_port_of(scheme) ? bracketed(host) : HostPort{host, port}.to_string();
}

std::string Url::to_string() const {
  return scheme + "://" + authority() + target();
}

Result<HostPort> parse_host_port(std::string_view text, std::optional<uint16_t> default_port) {
  HostPort out;
  std::string_view rest;
  if (!text.empty() && text.front() == '[') {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return bad("']' after an IPv6 address", text);
    in6_addr unused{};
    const std::string_view address = text.substr(1, close - 1);
    if (address.find('\0') != std::string_view::npos || !parse_ipv6(address, unused))
      return bad("an IPv6 address", text);
    out.host = lower(address);
    rest = text.substr(close + 1);
  } else {
    const size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    TRY(check_name(name));
    out.host = lower(name);
    rest = colon == std::string_view::npos ? std::string_view() : text.substr(colon);
  }
  if (rest.empty()) {
    if (!default_port) return bad("host:port", text);
    out.port = *default_port;
    return out;
  }
  if (rest.front() != ':') return bad("':' after the host", text);
  ASSIGN_OR_RETURN(out.port, parse_port(rest.substr(1)));
  return out;
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrlBytes) return bad("at most 4096 bytes", text);
  const size_t mark = text.find("://");
  if (mark == std::string_view::npos) return bad("http:// or https://", text);
  Url url;
  url.scheme = lower(text.substr(0, mark));
  if (url.scheme != "http" && url.scheme != "https") return bad("http:// or https://", text);
  const std::string_view rest = text.substr(mark + 3);
  const size_t authority_end = std::min(rest.find_first_of("/?#"), rest.size());
  ASSIGN_OR_RETURN(HostPort peer,
                   parse_host_port(rest.substr(0, authority_end), default_port_of(url.scheme)));
  url.host = std::move(peer.host);
  url.port = peer.port;
  const std::string_view target = rest.substr(authority_end);
  TRY(check_target(target));
  const size_t question = std::min(target.find('?'), target.size());
  if (question > 0) url.path = std::string(target.substr(0, question));
  if (question < target.size()) url.query = std::string(target.substr(question + 1));
  return url;
}

bool is_loopback_host(std::string_view host) {
  if (lower(host) == "localhost") return true;
  if (host.find('\0') != std::string_view::npos) return false;
  in_addr v4{};
  if (parse_ipv4(host, v4)) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  return parse_ipv6(host, v6) && IN6_IS_ADDR_LOOPBACK(&v6);
}

Result<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
    if (high < 0 || low < 0) return bad("two hexadecimal digits after '%'", text.substr(i));
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

}  // namespace isthmus
