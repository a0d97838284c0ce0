// SPDX-License-Identifier: Apache-2.0
// Filters that read one value and write text or a number.
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "text/jinja_filter_arguments.h"
#include "text/jinja_filters.h"
#include "text/jinja_json.h"
#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

constexpr int64_t kMaxIndent = 64;  // spaces; wider ones only serve to blow up the output

template <std::string (*kMap)(std::string_view)>
Result<Value> map_filter(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("filter", {}).status());
  ASSIGN_OR_RETURN(const std::string text, text_of(runtime, value));
  return new_string(runtime, kMap(text));
}
std::string title(std::string_view text) {
  return title_case(text, true);
}
std::string unchanged(std::string_view text) {
  return std::string(text);
}

Result<Value> trim(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("trim", {"chars"}));
  ASSIGN_OR_RETURN(const std::string text, text_of(runtime, value));
  if (slots[0] == nullptr || slots[0]->is_none())
    return new_string(runtime, std::string(strip(text, Side::kBoth)));
  ASSIGN_OR_RETURN(const std::string chars, text_of(runtime, *slots[0]));
  const std::string_view set = chars;
  return new_string(runtime, std::string(strip(text, Side::kBoth, &set)));
}

Result<Value> replace(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("replace", {"old", "new", "count"}));
  if (slots[0] == nullptr || slots[1] == nullptr) {
    return Status(Code::kInvalidArgument, "replace: expected two arguments");
  }
  ASSIGN_OR_RETURN(const std::string text, text_of(runtime, value));
  ASSIGN_OR_RETURN(const std::string from, text_of(runtime, *slots[0]));
  ASSIGN_OR_RETURN(const std::string to, text_of(runtime, *slots[1]));
  const bool unlimited = slots[2] != nullptr && slots[2]->is_none();
  ASSIGN_OR_RETURN(const int64_t count, int_or("replace", unlimited ? nullptr : slots[2], -1));
  TRY(runtime.work(text.size() / std::max<size_t>(from.size(), 1) + 1, 1 + to.size()));
  return new_string(runtime, replace_all(text, from, to, count));
}

Result<Value> indent(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("indent", {"width", "first", "blank"}));
  if (!value.is_string()) {
    if (value.is_undefined()) return undefined_error(value);
    return Status(Code::kInvalidArgument, "indent: expected str, got " + std::string(value.type_name()));
  }
  std::string prefix;
  if (slots[0] != nullptr && slots[0]->is_string()) {
    prefix = slots[0]->str();
  } else {
    ASSIGN_OR_RETURN(const int64_t width, int_or("indent", slots[0], 4));
    if (width > kMaxIndent) return Status(Code::kResourceExhausted, "indent: width " + std::to_string(width));
    prefix.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool blank = bool_or(slots[2], false);
  const std::string text = value.str() + "\n";
  std::string out = bool_or(slots[1], false) ? prefix : "";
  bool first = true;
  for (std::string_view line : split_lines(text)) {
    TRY(runtime.work(prefix.size() + line.size() + 1));
    if (!first) {
      out += '\n';
      if (blank || !line.empty()) out += prefix;
    }
    out += line;
    first = false;
  }
  return Value(std::move(out));
}

Result<Value> tojson(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots,
                   args.bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bool_or(slots[0], false);
  style.sort_keys = bool_or(slots[3], false);
  if (slots[1] != nullptr && !slots[1]->is_none()) {
    ASSIGN_OR_RETURN(const int64_t width, int_or("tojson", slots[1], 0));
    if (width < 0 || width > kMaxIndent)
      return Status(Code::kInvalidArgument, "tojson: indent " + std::to_string(width));
    style.indent = static_cast<int>(width);
  }
  if (slots[2] != nullptr && !slots[2]->is_none()) {
    const bool pair = slots[2]->is_list() && slots[2]->list().items.size() == 2 &&
                      slots[2]->list().items[0].is_string() && slots[2]->list().items[1].is_string();
    if (!pair) return Status(Code::kInvalidArgument, "tojson: separators must be two strings");
    style.item_separator = slots[2]->list().items[0].str();
    style.key_separator = slots[2]->list().items[1].str();
    TRY(runtime.work(value.weight() / 8, style.item_separator->size() + style.key_separator.size()));
  }
  TRY(runtime.work(value.weight()));
  if (style.indent)
    TRY(runtime.work(value.weight() / 8,
                     static_cast<size_t>(*style.indent) * static_cast<size_t>(value.depth())));
  ASSIGN_OR_RETURN(std::string text, to_json(value, style));
  return new_string(runtime, std::move(text));
}

// Python's int("...") and float("..."): white space around, single underscores between digits.
std::string number_text(std::string_view text) {
  text = strip(text, Side::kBoth);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
    out += text[i];
  }
  return out;
}

template <typename Number>
bool parse_number(const std::string& text, Number& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

bool fits_int64(double number) {
  return number >= -9.2233720368547758e18 && number < 9.2233720368547758e18;
}

Result<Value> to_int(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("int", {"default", "base"}));
  const Value fallback = slots[0] == nullptr ? Value(int64_t{0}) : *slots[0];
  if (slots[1] != nullptr && !(slots[1]->is_int() && slots[1]->as_int() == 10)) {
    return Status(Code::kUnsupported, "int: only base 10");
  }
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_int() || value.is_bool()) return Value(value.as_int());
  if (value.is_float())
    return fits_int64(value.as_double()) ? Value(static_cast<int64_t>(value.as_double())) : fallback;
  if (!value.is_string()) return fallback;
  TRY(runtime.work(value.str().size()));
  const std::string text = number_text(value.str());
  int64_t integer = 0;
  if (parse_number(text, integer)) return Value(integer);
  double number = 0;
  if (parse_number(text, number) && fits_int64(number)) return Value(static_cast<int64_t>(number));
  return fallback;
}

Result<Value> to_float(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("float", {"default"}));
  const Value fallback = slots[0] == nullptr ? Value(0.0) : *slots[0];
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_number()) return Value(value.as_double());
  if (!value.is_string()) return fallback;
  TRY(runtime.work(value.str().size()));
  double number = 0;
  return parse_number(number_text(value.str()), number) ? Value(number) : fallback;
}

Result<Value> absolute(Runtime&, const Value& value, const CallArgs& args) {
  TRY(args.bind("abs", {}).status());
  if (value.is_float()) return Value(std::fabs(value.as_double()));
  if (value.is_number()) return value.as_int() < 0 ? negate(value) : Value(value.as_int());
  if (value.is_undefined()) return undefined_error(value);
  return Status(Code::kInvalidArgument, "abs: expected a number, got " + std::string(value.type_name()));
}

Result<Value> round(Runtime&, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("round", {"precision", "method"}));
  ASSIGN_OR_RETURN(const int64_t precision, int_or("round", slots[0], 0));
  if (!value.is_number()) {
    if (value.is_undefined()) return undefined_error(value);
    return Status(Code::kInvalidArgument, "round: expected a number, got " + std::string(value.type_name()));
  }
  const std::string method = slots[1] != nullptr && slots[1]->is_string() ? slots[1]->str() : "common";
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * scale;
  if (method == "ceil") return Value(std::ceil(scaled) / scale);
  if (method == "floor") return Value(std::floor(scaled) / scale);
  if (method != "common") return Status(Code::kInvalidArgument, "round: method is common, ceil or floor");
  if (value.is_int()) return value;
  return Value(std::nearbyint(scaled) / scale);
}

Result<Value> default_value(Runtime&, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("default", {"default_value", "boolean"}));
  const bool missing = value.is_undefined() || (bool_or(slots[1], false) && !value.truthy());
  if (!missing) return value;
  return slots[0] == nullptr ? Value("") : *slots[0];
}

}  // namespace

FilterFn find_string_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kFilters = {
      {"upper", map_filter<to_upper>},
      {"lower", map_filter<to_lower>},
      {"title", map_filter<title>},
      {"capitalize", map_filter<capitalize>},
      {"string", map_filter<unchanged>},
      {"safe", map_filter<unchanged>},
      {"escape", map_filter<html_escape>},
      {"e", map_filter<html_escape>},
      {"forceescape", map_filter<html_escape>},
      {"trim", trim},
      {"replace", replace},
      {"indent", indent},
      {"tojson", tojson},
      {"int", to_int},
      {"float", to_float},
      {"abs", absolute},
      {"round", round},
      {"default", default_value},
      {"d", default_value},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

FilterFn find_filter(std::string_view name) {
  for (FilterFn (*find)(std::string_view) :
       {find_string_filter, find_sequence_filter, find_selection_filter}) {
    if (FilterFn filter = find(name)) return filter;
  }
  return nullptr;
}

}  // namespace isthmus::jinja
