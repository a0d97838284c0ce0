// SPDX-License-Identifier: Apache-2.0
#include "net/http_message.h"

#include <algorithm>
#include <array>

namespace isthmus {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 29> kReasons = {{
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Payload Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Entity"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
         (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

bool is_value_char(char c) {
  return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
}

}  // namespace

bool iequals_ascii(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> HttpHeaders::get(std::string_view name) const {
  for (const auto& [key, value] : fields_) {
    if (iequals_ascii(key, name)) return value;
  }
  return std::nullopt;
}

size_t HttpHeaders::count(std::string_view name) const {
  return static_cast<size_t>(std::count_if(
      fields_.begin(), fields_.end(), [&](const auto& field) { return iequals_ascii(field.first, name); }));
}

Status HttpHeaders::validate() const {
  for (const auto& [name, value] : fields_) {
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_token_char)) {
      return Status(Code::kInvalidArgument, "http_headers: a field name is no token");
    }
    if (!std::all_of(value.begin(), value.end(), is_value_char)) {
      return Status(Code::kInvalidArgument,
                    "http_headers: the value of " + name + " holds a control character");
    }
  }
  return Status();
}

std::string_view http_reason(int status) {
  const auto* found = std::find_if(kReasons.begin(), kReasons.end(),
                                   [&](const auto& entry) { return entry.first == status; });
  return found == kReasons.end() ? "Status" : found->second;
}

}  // namespace isthmus
