// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_methods.h"

#include <algorithm>
#include <unordered_map>

#include "text/jinja_operators.h"
#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

using Table = std::unordered_map<std::string_view, NativeFn>;

Result<std::string_view> string_argument(std::string_view method, const Value* value) {
  if (value == nullptr) return Status(Code::kInvalidArgument, std::string(method) + ": argument is missing");
  if (value->is_undefined()) return undefined_error(*value);
  if (value->is_string()) return std::string_view(value->str());
  return Status(Code::kInvalidArgument,
                std::string(method) + ": expected str, got " + std::string(value->type_name()));
}

Result<int64_t> integer_argument(std::string_view method, const Value* value, int64_t fallback) {
  if (value == nullptr) return fallback;
  if (value->is_int() || value->is_bool()) return value->as_int();
  return Status(Code::kInvalidArgument,
                std::string(method) + ": expected int, got " + std::string(value->type_name()));
}

Result<Value> strip_method(std::string_view name, Side side, Runtime& runtime, const Value& self,
                           const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind(name, {"chars"}));
  if (slots[0] == nullptr || slots[0]->is_none())
    return new_string(runtime, std::string(strip(self.str(), side)));
  ASSIGN_OR_RETURN(const std::string_view chars, string_argument(name, slots[0]));
  TRY(runtime.work(self.str().size(), 1 + chars.size() / 8));
  return new_string(runtime, std::string(strip(self.str(), side, &chars)));
}
Result<Value> str_strip(Runtime& r, const Value& s, const CallArgs& a) {
  return strip_method("strip", Side::kBoth, r, s, a);
}
Result<Value> str_lstrip(Runtime& r, const Value& s, const CallArgs& a) {
  return strip_method("lstrip", Side::kLeft, r, s, a);
}
Result<Value> str_rstrip(Runtime& r, const Value& s, const CallArgs& a) {
  return strip_method("rstrip", Side::kRight, r, s, a);
}

std::vector<Value> split_at_space(std::string_view text, int64_t limit) {
  std::vector<Value> parts;
  text = strip(text, Side::kLeft);
  while (!text.empty()) {
    size_t end = 0;
    while (end < text.size() && !is_python_space(decode_code_point(text, end)))
      end += code_point_bytes(text, end);
    if (limit-- == 0) end = text.size();
    parts.emplace_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  return parts;
}

std::vector<Value> split_at(std::string_view text, std::string_view separator, int64_t limit,
                            bool from_right) {
  std::vector<Value> parts;
  while (limit-- != 0) {
    const size_t hit = from_right ? text.rfind(separator) : text.find(separator);
    if (hit == std::string_view::npos) break;
    parts.emplace_back(from_right ? text.substr(hit + separator.size()) : text.substr(0, hit));
    text = from_right ? text.substr(0, hit) : text.substr(hit + separator.size());
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Result<Value> split_method(bool from_right, Runtime& runtime, const Value& self, const CallArgs& args) {
  const std::string_view name = from_right ? "rsplit" : "split";
  ASSIGN_OR_RETURN(const auto slots, args.bind(name, {"sep", "maxsplit"}));
  ASSIGN_OR_RETURN(const int64_t limit, integer_argument(name, slots[1], -1));
  TRY(runtime.work(self.str().size()));
  if (slots[0] == nullptr || slots[0]->is_none()) {
    if (from_right && limit >= 0) return Status(Code::kUnsupported, "rsplit: maxsplit needs a separator");
    TRY(runtime.work(self.str().size() / 2, sizeof(Value)));
    return new_list(runtime, split_at_space(self.str(), limit));
  }
  ASSIGN_OR_RETURN(const std::string_view separator, string_argument(name, slots[0]));
  if (separator.empty()) return Status(Code::kInvalidArgument, std::string(name) + ": empty separator");
  TRY(runtime.work(self.str().size() / separator.size(), sizeof(Value)));
  return new_list(runtime, split_at(self.str(), separator, limit, from_right));
}
Result<Value> str_split(Runtime& r, const Value& s, const CallArgs& a) {
  return split_method(false, r, s, a);
}
Result<Value> str_rsplit(Runtime& r, const Value& s, const CallArgs& a) {
  return split_method(true, r, s, a);
}

Result<Value> str_splitlines(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("splitlines", {}).status());
  TRY(runtime.work(self.str().size(), sizeof(Value)));
  std::vector<Value> lines;
  for (std::string_view line : split_lines(self.str())) lines.emplace_back(line);
  return new_list(runtime, std::move(lines));
}

// One affix, or a tuple of which any may match.
Result<Value> affix_method(bool at_start, const Value& self, const CallArgs& args) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  ASSIGN_OR_RETURN(const auto slots, args.bind(name, {"affix"}));
  std::vector<Value> affixes;
  if (slots[0] != nullptr && slots[0]->is_list() && slots[0]->list().tuple) {
    affixes = slots[0]->list().items;
  } else if (slots[0] != nullptr) {
    affixes = {*slots[0]};
  } else {
    return string_argument(name, nullptr).status();
  }
  const std::string_view text = self.str();
  for (const Value& value : affixes) {
    ASSIGN_OR_RETURN(const std::string_view affix, string_argument(name, &value));
    if (at_start ? text.starts_with(affix) : text.ends_with(affix)) return Value(true);
  }
  return Value(false);
}
Result<Value> str_startswith(Runtime&, const Value& s, const CallArgs& a) {
  return affix_method(true, s, a);
}
Result<Value> str_endswith(Runtime&, const Value& s, const CallArgs& a) {
  return affix_method(false, s, a);
}

template <std::string (*kMap)(std::string_view)>
Result<Value> map_method(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("method", {}).status());
  return new_string(runtime, kMap(self.str()));
}
std::string str_title(std::string_view text) {
  return title_case(text, false);
}

Result<Value> str_replace(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("replace", {"old", "new", "count"}));
  ASSIGN_OR_RETURN(const std::string_view from, string_argument("replace", slots[0]));
  ASSIGN_OR_RETURN(const std::string_view to, string_argument("replace", slots[1]));
  ASSIGN_OR_RETURN(const int64_t count, integer_argument("replace", slots[2], -1));
  TRY(runtime.work(self.str().size() / std::max<size_t>(from.size(), 1) + 1, 1 + to.size()));
  return new_string(runtime, replace_all(self.str(), from, to, count));
}

Result<Value> str_join(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("join", {"iterable"}));
  if (slots[0] == nullptr) return string_argument("join", nullptr).status();
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, *slots[0]));
  std::string out;
  for (size_t i = 0; i < items->items.size(); ++i) {
    ASSIGN_OR_RETURN(const std::string_view part, string_argument("join", &items->items[i]));
    TRY(runtime.work(part.size() + self.str().size()));
    if (i > 0) out += self.str();
    out += part;
  }
  return Value(std::move(out));
}

// Position in code points, or -1.
Result<Value> find_method(bool last, Runtime& runtime, const Value& self, const CallArgs& args) {
  const std::string_view name = last ? "rfind" : "find";
  ASSIGN_OR_RETURN(const auto slots, args.bind(name, {"sub"}));
  ASSIGN_OR_RETURN(const std::string_view needle, string_argument(name, slots[0]));
  TRY(runtime.work(self.str().size()));
  const std::string_view text = self.str();
  const size_t hit = last ? text.rfind(needle) : text.find(needle);
  if (hit == std::string_view::npos) return Value(int64_t{-1});
  return Value(static_cast<int64_t>(count_code_points(text.substr(0, hit))));
}
Result<Value> str_find(Runtime& r, const Value& s, const CallArgs& a) {
  return find_method(false, r, s, a);
}
Result<Value> str_rfind(Runtime& r, const Value& s, const CallArgs& a) {
  return find_method(true, r, s, a);
}

Result<Value> str_count(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("count", {"sub"}));
  ASSIGN_OR_RETURN(const std::string_view needle, string_argument("count", slots[0]));
  TRY(runtime.work(self.str().size()));
  if (needle.empty()) return Value(static_cast<int64_t>(count_code_points(self.str()) + 1));
  int64_t n = 0;
  for (size_t at = self.str().find(needle); at != std::string::npos;
       at = self.str().find(needle, at + needle.size()))
    ++n;
  return Value(n);
}

template <bool kPrefix>
Result<Value> str_remove_affix(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind(kPrefix ? "removeprefix" : "removesuffix", {"affix"}));
  ASSIGN_OR_RETURN(const std::string_view affix, string_argument("removeprefix", slots[0]));
  std::string_view text = self.str();
  if (kPrefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kPrefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return new_string(runtime, std::string(text));
}

// True if the string is not empty and every character satisfies the test.
template <bool (*kTest)(uint32_t)>
Result<Value> str_all(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("method", {}).status());
  const std::string& text = self.str();
  TRY(runtime.work(text.size()));
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) {
    if (!kTest(decode_code_point(text, pos))) return Value(false);
  }
  return Value(!text.empty());
}
bool is_letter_or_digit(uint32_t c) {
  return is_letter(c) || is_digit(c);
}

// True if some letter has case and none has the other one.
template <bool kUpper>
Result<Value> str_has_case(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind(kUpper ? "isupper" : "islower", {}).status());
  const std::string& text = self.str();
  TRY(runtime.work(text.size()));
  bool seen = false;
  for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) {
    const uint32_t c = decode_code_point(text, pos);
    if (kUpper ? is_lower(c) : is_upper(c)) return Value(false);
    seen = seen || (kUpper ? is_upper(c) : is_lower(c));
  }
  return Value(seen);
}

Result<Value> dict_items(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("items", {}).status());
  std::vector<Value> pairs;
  TRY(runtime.work(self.dict().entries.size(), sizeof(List) + 2 * sizeof(Value)));
  for (const auto& [key, value] : self.dict().entries) {
    ASSIGN_OR_RETURN(Value pair, make_list({key, value}, true));
    pairs.push_back(std::move(pair));
  }
  return new_list(runtime, std::move(pairs));
}

Result<Value> dict_keys(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("keys", {}).status());
  std::vector<Value> keys;
  for (const auto& [key, value] : self.dict().entries) keys.push_back(key);
  return new_list(runtime, std::move(keys));
}

Result<Value> dict_values(Runtime& runtime, const Value& self, const CallArgs& args) {
  TRY(args.bind("values", {}).status());
  std::vector<Value> values;
  for (const auto& [key, value] : self.dict().entries) values.push_back(value);
  return new_list(runtime, std::move(values));
}

Result<Value> dict_get(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("get", {"key", "default"}));
  if (slots[0] == nullptr) return Status(Code::kInvalidArgument, "get: argument is missing");
  TRY(runtime.step(1 + self.dict().entries.size() / 8));
  if (const Value* found = self.dict().find(*slots[0])) return *found;
  return slots[1] == nullptr ? Value() : *slots[1];
}

Result<Value> copy(Runtime&, const Value& self, const CallArgs& args) {
  TRY(args.bind("copy", {}).status());
  return self;
}

Result<Value> list_index(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("index", {"value"}));
  TRY(runtime.work(self.weight()));
  const auto& items = self.list().items;
  for (size_t i = 0; slots[0] != nullptr && i < items.size(); ++i) {
    if (equal(items[i], *slots[0])) return Value(static_cast<int64_t>(i));
  }
  return Status(Code::kInvalidArgument, "index: value is not in the list");
}

Result<Value> list_count(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("count", {"value"}));
  TRY(runtime.work(self.weight()));
  if (slots[0] == nullptr) return Status(Code::kInvalidArgument, "count: argument is missing");
  const auto& items = self.list().items;
  return Value(static_cast<int64_t>(
      std::count_if(items.begin(), items.end(), [&](const Value& item) { return equal(item, *slots[0]); })));
}

NativeFn lookup(const Table& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

NativeFn find_method(const Value& value, std::string_view name) {
  static const Table kString = {
      {"strip", str_strip},
      {"lstrip", str_lstrip},
      {"rstrip", str_rstrip},
      {"split", str_split},
      {"rsplit", str_rsplit},
      {"splitlines", str_splitlines},
      {"startswith", str_startswith},
      {"endswith", str_endswith},
      {"upper", map_method<to_upper>},
      {"lower", map_method<to_lower>},
      {"title", map_method<str_title>},
      {"capitalize", map_method<capitalize>},
      {"replace", str_replace},
      {"join", str_join},
      {"find", str_find},
      {"rfind", str_rfind},
      {"count", str_count},
      {"removeprefix", str_remove_affix<true>},
      {"removesuffix", str_remove_affix<false>},
      {"isdigit", str_all<is_digit>},
      {"isalpha", str_all<is_letter>},
      {"isalnum", str_all<is_letter_or_digit>},
      {"isspace", str_all<is_python_space>},
      {"isupper", str_has_case<true>},
      {"islower", str_has_case<false>},
  };
  static const Table kDict = {
      {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}, {"copy", copy}};
  static const Table kList = {{"index", list_index}, {"count", list_count}, {"copy", copy}};
  if (value.is_string()) return lookup(kString, name);
  if (value.is_dict()) return lookup(kDict, name);
  if (value.is_list()) return lookup(kList, name);
  return nullptr;
}

}  // namespace isthmus::jinja
