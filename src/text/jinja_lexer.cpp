// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

// CRLF and CR become LF; one newline at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)), text_(source_) {}

  Result<std::vector<Token>> run() {
    while (pos_ < text_.size()) TRY(lex_data());
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Status error(const std::string& what) const {
    return {Code::kInvalidArgument, "line " + std::to_string(line_) + ": " + what};
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  bool at(std::string_view what) const { return text_.substr(pos_).starts_with(what); }

  void advance(size_t n) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(pos_ + n), '\n'));
    pos_ += n;
  }

  size_t space_bytes(size_t pos) const {
    return text_.size() - pos - strip(text_.substr(pos), Side::kLeft).size();
  }
  void skip_space() { advance(space_bytes(pos_)); }

  // Data up to the next tag, then the tag it leads to.
  Status lex_data() {
    size_t tag = pos_;
    while ((tag = text_.find('{', tag)) != std::string_view::npos) {
      if (tag + 1 < text_.size() && std::string_view("%{#").find(text_[tag + 1]) != std::string_view::npos)
        break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      push_data(text_.substr(pos_), ' ', false);
      return {};
    }
    const char type = text_[tag + 1];
    char sign = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
    if (sign != '-' && sign != '+') sign = ' ';
    push_data(text_.substr(pos_, tag - pos_), sign, type != '{');
    const size_t raw_bytes = type == '%' ? raw_tag_bytes("raw", false) : 0;
    if (raw_bytes > 0) {
      advance(raw_bytes);
      return lex_raw();
    }
    advance(sign == ' ' ? 2 : 3);
    if (type == '#') return lex_comment();
    return lex_tag(type);
  }

  // Emits and consumes `data`, which a tag with white-space sign `sign` follows (' ' for none). `lstrips`: a
  // block or comment tag that stands alone on its line takes the blanks before it.
  void push_data(std::string_view data, char sign, bool lstrips) {
    std::string_view kept = data;
    if (sign == '-') {
      kept = strip(data, Side::kRight);
    } else if (sign == ' ' && lstrips) {
      const size_t newline = data.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && is_all_space(data.substr(start))) kept = data.substr(0, start);
    }
    if (!kept.empty()) push(TokenKind::kData, std::string(kept));
    advance(data.size());
    line_starting_ = false;
  }

  // Bytes of the tag "{% raw %}" or "{% endraw %}" at the position, 0 if it is another. `trims`: it takes a
  // newline.
  size_t raw_tag_bytes(std::string_view name, bool trims) const {
    size_t pos = pos_ + 2;
    if (pos < text_.size() && (text_[pos] == '-' || text_[pos] == '+')) ++pos;
    pos += space_bytes(pos);
    if (!text_.substr(pos).starts_with(name)) return 0;
    pos += name.size();
    pos += space_bytes(pos);
    const size_t end = tag_end_bytes(pos, "%}", trims);
    return end == 0 ? 0 : pos + end - pos_;
  }

  // Bytes of `closer` at `pos` with its sign and the white space it takes; 0 if it is not there.
  size_t tag_end_bytes(size_t pos, std::string_view closer, bool trims) const {
    const std::string_view rest = text_.substr(pos);
    if (rest.empty()) return 0;
    if (rest[0] == '-' && rest.substr(1).starts_with(closer)) {
      return closer.size() + 1 + space_bytes(pos + closer.size() + 1);
    }
    if (trims && rest[0] == '+' && rest.substr(1).starts_with(closer)) return closer.size() + 1;
    if (!rest.starts_with(closer)) return 0;
    const bool newline = trims && rest.substr(closer.size()).starts_with('\n');
    return closer.size() + (newline ? 1 : 0);
  }

  void finish_tag(size_t bytes) {
    advance(bytes);
    line_starting_ = text_[pos_ - 1] == '\n';
  }

  Status lex_raw() {
    const size_t start = pos_;
    const int start_line = line_;
    for (size_t tag = text_.find("{%", start); tag != std::string_view::npos;
         tag = text_.find("{%", tag + 2)) {
      pos_ = tag;
      const size_t bytes = raw_tag_bytes("endraw", true);
      if (bytes == 0) continue;
      const char next = text_[tag + 2];
      pos_ = start;
      line_starting_ = false;
      push_data(text_.substr(start, tag - start), next == '-' || next == '+' ? next : ' ', true);
      finish_tag(bytes);
      return {};
    }
    line_ = start_line;
    return error("raw block is not closed");
  }

  Status lex_comment() {
    for (size_t end = text_.find("#}", pos_); end != std::string_view::npos;
         end = text_.find("#}", end + 1)) {
      const bool sign = end > pos_ && (text_[end - 1] == '-' || text_[end - 1] == '+');
      const size_t start = sign ? end - 1 : end;
      advance(start - pos_);
      finish_tag(tag_end_bytes(start, "#}", true));
      return {};
    }
    return error("comment is not closed");
  }

  Status lex_tag(char type) {
    const bool block = type == '%';
    push(block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    brackets_.clear();
    while (true) {
      skip_space();
      if (pos_ >= text_.size())
        return error(block ? "tag is not closed, expected %}" : "tag is not closed, expected }}");
      const size_t end = brackets_.empty() ? tag_end_bytes(pos_, block ? "%}" : "}}", block) : 0;
      if (end > 0) {
        push(block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
        finish_tag(end);
        return {};
      }
      TRY(lex_token());
    }
  }

  Status lex_token() {
    const char c = text_[pos_];
    if (is_name_start(c)) {
      size_t end = pos_;
      while (end < text_.size() && is_name_char(text_[end])) ++end;
      push(TokenKind::kName, std::string(text_.substr(pos_, end - pos_)));
      pos_ = end;
      return {};
    }
    if (is_decimal(c)) return lex_number();
    if (c == '\'' || c == '"') return lex_string(c);
    return lex_operator();
  }

  // Consumes digits with single underscores between them into `out`.
  void take_digits(std::string& out, bool hex = false) {
    const auto digit = [&](size_t i) {
      return i < text_.size() &&
             (hex ? std::isxdigit(static_cast<unsigned char>(text_[i])) != 0 : is_decimal(text_[i]));
    };
    while (digit(pos_) || (pos_ < text_.size() && text_[pos_] == '_' && digit(pos_ + 1))) {
      if (text_[pos_] != '_') out += text_[pos_];
      ++pos_;
    }
  }

  bool digit_at(size_t pos) const { return pos < text_.size() && is_decimal(text_[pos]); }
  char char_at(size_t pos) const { return pos < text_.size() ? text_[pos] : '\0'; }

  // The letter of a 0x, 0o or 0b prefix at the position, lower case; else 0.
  char base_letter() const {
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(char_at(pos_ + 1))));
    return text_[pos_] == '0' && (letter == 'x' || letter == 'o' || letter == 'b') ? letter : '\0';
  }

  // ".digits" and "e+digits" as far as they are there.
  void take_fraction(std::string& digits) {
    if (char_at(pos_) == '.' && digit_at(pos_ + 1)) {
      digits += '.';
      ++pos_;
      take_digits(digits);
    }
    if (char_at(pos_) != 'e' && char_at(pos_) != 'E') return;
    const char sign = char_at(pos_ + 1);
    const size_t skip = sign == '+' || sign == '-' ? 2 : 1;
    if (!digit_at(pos_ + skip)) return;
    digits += text_.substr(pos_, skip);
    pos_ += skip;
    take_digits(digits);
  }

  Status lex_number() {
    std::string digits;
    if (const char letter = base_letter(); letter != '\0') {
      digits = std::string("0") + letter;
      pos_ += 2;
      take_digits(digits, true);
      push(TokenKind::kInteger, digits);
      return {};
    }
    take_digits(digits);
    const size_t whole = digits.size();
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    if (!after_dot) take_fraction(digits);
    push(digits.size() > whole ? TokenKind::kFloat : TokenKind::kInteger, digits);
    return {};
  }

  Status lex_string(char quote) {
    const size_t start = pos_ + 1;
    size_t end = start;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) return error("string is not closed");
    std::string value;
    TRY(unescape(text_.substr(start, end - start), value));
    push(TokenKind::kString, std::move(value));
    advance(end + 1 - pos_);
    return {};
  }

  Status unescape(std::string_view body, std::string& out) const {
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] == '\\') {
        ++i;
        TRY(unescape_one(body, i, out));
      } else {
        out += body[i];
      }
    }
    return {};
  }

  // `i` is at the character after the backslash, and at the last one of the escape afterwards.
  Status unescape_one(std::string_view body, size_t& i, std::string& out) const {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
    const char c = body[i];
    if (const size_t simple = kNames.find(c); simple != std::string_view::npos) {
      out += kValues[simple];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      return unescape_hex(body, i, c == 'x' ? 2 : (c == 'u' ? 4 : 8), out);
    } else if (c >= '0' && c <= '7') {
      unescape_octal(body, i, out);
    } else if (c == 'N') {
      return error("named character escape \\N is not supported");
    } else if (c != '\n') {  // an escaped line break is nothing
      out += '\\';
      out += c;
    }
    return {};
  }

  static void unescape_octal(std::string_view body, size_t& i, std::string& out) {
    uint32_t value = 0;
    const size_t end = std::min(body.size(), i + 3);
    for (; i < end && body[i] >= '0' && body[i] <= '7'; ++i)
      value = value * 8 + static_cast<uint32_t>(body[i] - '0');
    --i;
    append_code_point(out, value);
  }

  // `i` is at the letter after the backslash, and at the last digit afterwards.
  Status unescape_hex(std::string_view body, size_t& i, size_t digits, std::string& out) const {
    const std::string_view hex = body.substr(i + 1, digits);
    const bool valid = hex.size() == digits && std::all_of(hex.begin(), hex.end(), [](char h) {
                         return std::isxdigit(static_cast<unsigned char>(h)) != 0;
                       });
    if (!valid)
      return error("string escape \\" + std::string(1, body[i]) + " needs " + std::to_string(digits) +
                   " hex digits");
    append_code_point(out, static_cast<uint32_t>(std::stoul(std::string(hex), nullptr, 16)));
    i += digits;
    return {};
  }

  Status lex_operator() {
    constexpr std::array<std::string_view, 27> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
        "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!"};
    for (std::string_view op : kOperators) {
      if (!at(op) || op == "!") continue;
      TRY(balance(op[0]));
      push(TokenKind::kOperator, std::string(op));
      pos_ += op.size();
      return {};
    }
    return error("unexpected character '" + std::string(text_.substr(pos_, code_point_bytes(text_, pos_))) +
                 "'");
  }

  // Inside brackets the end marks of a tag are ordinary operators: {{ {'a': {}} }}.
  Status balance(char c) {
    constexpr std::string_view kOpen = "([{";
    constexpr std::string_view kClose = ")]}";
    if (const size_t open = kOpen.find(c); open != std::string_view::npos) {
      brackets_ += kClose[open];
    } else if (kClose.find(c) != std::string_view::npos) {
      if (brackets_.empty()) return error(std::string("unexpected '") + c + "'");
      if (brackets_.back() != c)
        return error(std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
      brackets_.pop_back();
    }
    return {};
  }

  std::string source_;
  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the text at the position starts a line as far as lstrip is concerned
  std::string brackets_;       // the closing brackets that are awaited
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace isthmus::jinja
