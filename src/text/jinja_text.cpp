// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_text.h"

#include <utf8proc.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "text/utf8.h"

namespace isthmus::jinja {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

size_t expected_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

template <typename Fn>
std::string map_code_points(std::string_view text, Fn fn) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) {
    fn(decode_code_point(text, pos), out);
  }
  return out;
}

void append_upper(uint32_t c, std::string& out) {
  if (c == 0xDF) {  // the one letter in common use whose upper form is two letters
    out += "SS";
    return;
  }
  append_code_point(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(uint32_t c, std::string& out) {
  append_code_point(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void append_title(uint32_t c, std::string& out) {
  if (c == 0xDF) {
    out += "Ss";
    return;
  }
  append_code_point(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool strips(uint32_t c, std::string_view encoded, const std::string_view* chars) {
  return chars == nullptr ? is_python_space(c) : chars->find(encoded) != std::string_view::npos;
}

// str.isprintable of one character: not a control, format, surrogate, private or unassigned one, nor a
// separator other than the blank.
bool is_printable(uint32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

// \xHH, \uHHHH or \UHHHHHHHH, the shortest that holds it.
void append_escape(uint32_t c, std::string& out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const int digits = c < 0x100 ? 2 : (c < 0x10000 ? 4 : 8);
  out += digits == 2 ? "\\x" : (digits == 4 ? "\\u" : "\\U");
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += kHex[(c >> shift) & 15];
}

}  // namespace

size_t code_point_bytes(std::string_view text, size_t pos) {
  const size_t want = expected_bytes(static_cast<unsigned char>(text[pos]));
  if (want <= 1 || pos + want > text.size()) return 1;
  for (size_t i = 1; i < want; ++i) {
    if (!is_continuation(text[pos + i])) return 1;
  }
  return want;
}

uint32_t decode_code_point(std::string_view text, size_t pos) {
  const size_t n = code_point_bytes(text, pos);
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[pos + i]));
  };
  switch (n) {
    case 2:
      return ((byte(0) & 0x1F) << 6) | (byte(1) & 0x3F);
    case 3:
      return ((byte(0) & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
    case 4:
      return ((byte(0) & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F);
    default:
      return byte(0) < 0x80 ? byte(0) : kReplacement;
  }
}

bool is_valid_utf8(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

void append_code_point(std::string& out, uint32_t c) {
  const bool scalar = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
  utf8_append(scalar ? c : kReplacement, out);
}

bool is_ascii(std::string_view text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

size_t count_code_points(std::string_view text) {
  if (is_ascii(text)) return text.size();
  size_t n = 0;
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) ++n;
  return n;
}

std::vector<size_t> code_point_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) offsets.push_back(pos);
  offsets.push_back(text.size());
  return offsets;
}

bool is_python_space(uint32_t c) {
  if (c <= 0x20) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  if (c < 0x80) return false;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_all_space(std::string_view text) {
  return strip(text, Side::kLeft).empty();
}

std::string_view strip(std::string_view text, Side side, const std::string_view* chars) {
  if (side != Side::kRight) {
    while (!text.empty()) {
      const size_t n = code_point_bytes(text, 0);
      if (!strips(decode_code_point(text, 0), text.substr(0, n), chars)) break;
      text.remove_prefix(n);
    }
  }
  if (side != Side::kLeft) {
    while (!text.empty()) {
      size_t start = text.size() - 1;
      while (start > 0 && text.size() - start < 4 && is_continuation(text[start])) --start;
      if (start + code_point_bytes(text, start) != text.size()) start = text.size() - 1;
      if (!strips(decode_code_point(text, start), text.substr(start), chars)) break;
      text.remove_suffix(text.size() - start);
    }
  }
  return text;
}

std::string to_upper(std::string_view text) {
  return map_code_points(text, append_upper);
}
std::string to_lower(std::string_view text) {
  return map_code_points(text, append_lower);
}

std::string capitalize(std::string_view text) {
  bool first = true;
  return map_code_points(text, [&](uint32_t c, std::string& out) {
    first ? append_title(c, out) : append_lower(c, out);
    first = false;
  });
}

bool is_letter(uint32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}
bool is_digit(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_upper(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(uint32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL;
}

std::string title_case(std::string_view text, bool words) {
  bool start = true;
  return map_code_points(text, [&](uint32_t c, std::string& out) {
    if (!start) {
      append_lower(c, out);
    } else if (words) {
      append_upper(c, out);
    } else {
      append_title(c, out);
    }
    if (words) {
      start = is_python_space(c) || c == '-' || c == '(' || c == '[' || c == '{' || c == '<';
    } else {
      start = !is_letter(c);
    }
  });
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t c = decode_code_point(text, pos);
    const size_t end = pos;
    pos += code_point_bytes(text, pos);
    const bool breaks =
        (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.push_back(text.substr(start, end - start));
    start = pos;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t pos = 0;
  if (from.empty()) {  // Python inserts `to` before every character and at the end
    while (pos < text.size() && count-- != 0) {
      const size_t n = code_point_bytes(text, pos);
      out.append(to).append(text.substr(pos, n));
      pos += n;
    }
    if (pos == text.size() && count != 0) return out.append(to);
    return out.append(text.substr(pos));
  }
  while (count-- != 0) {
    const size_t hit = text.find(from, pos);
    if (hit == std::string_view::npos) break;
    out.append(text.substr(pos, hit - pos)).append(to);
    pos = hit + from.size();
  }
  return out.append(text.substr(pos));
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string python_string_repr(std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  constexpr std::string_view kControls = "\n\t\r";
  constexpr std::string_view kNames = "ntr";
  std::string body = map_code_points(text, [&](uint32_t c, std::string& out) {
    const size_t control = c < 0x20 ? kControls.find(static_cast<char>(c)) : std::string_view::npos;
    if (control != std::string_view::npos) {
      out += '\\';
      out += kNames[control];
    } else if (c == '\\' || c == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      append_code_point(out, c);
    } else {
      append_escape(c, out);
    }
  });
  return quote + body + quote;
}

std::string python_float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  const double magnitude = std::fabs(value);
  // Python switches to an exponent below 1e-4 and from 1e16 on; both forms are the shortest that round-trips.
  const bool exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (!exponent && text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace isthmus::jinja
