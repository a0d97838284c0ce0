// SPDX-License-Identifier: Apache-2.0
// Filters over lists, dicts and the characters of strings.
#include <algorithm>
#include <unordered_map>

#include "text/jinja_filter_arguments.h"
#include "text/jinja_filters.h"
#include "text/jinja_methods.h"
#include "text/jinja_selection.h"
#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

Result<Value> length(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("length", {}).status());
  size_t n = 0;
  if (value.is_string()) {
    TRY(runtime.work(value.str().size() / 4));
    n = count_code_points(value.str());
  } else if (value.is_list()) {
    n = value.list().items.size();
  } else if (value.is_dict()) {
    n = value.dict().entries.size();
  } else if (!value.is_undefined()) {
    return Status(Code::kInvalidArgument, "length: a " + std::string(value.type_name()) + " has no length");
  }
  return Value(static_cast<int64_t>(n));
}

Result<Value> join(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("join", {"d", "attribute"}));
  ASSIGN_OR_RETURN(const std::string glue, text_or(runtime, slots[0], ""));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  std::string out;
  bool first = true;
  for (const Value& item : items->items) {
    ASSIGN_OR_RETURN(const Value part, follow_path(runtime, item, slots[1]));
    ASSIGN_OR_RETURN(const std::string text, text_of(runtime, part));
    TRY(runtime.work(text.size() + glue.size()));
    if (!first) out += glue;
    out += text;
    first = false;
  }
  return Value(std::move(out));
}

template <bool kLast>
Result<Value> end_item(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind(kLast ? "last" : "first", {}).status());
  if (value.is_list() && !value.list().items.empty()) {
    return kLast ? value.list().items.back() : value.list().items.front();
  }
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  if (items->items.empty())
    return Value::undefined(kLast ? "last item of an empty sequence" : "first item of an empty sequence");
  return kLast ? items->items.back() : items->items.front();
}

Result<Value> to_list(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("list", {}).status());
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  return new_list(runtime, items->items);
}

Result<Value> items(Runtime& runtime, const Value& value, const CallArgs& args) {
  if (value.is_undefined()) return make_list({});
  if (!value.is_dict())
    return Status(Code::kInvalidArgument, "items: expected dict, got " + std::string(value.type_name()));
  return find_method(value, "items")(runtime, value, args);
}

Result<Value> reverse(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("reverse", {}).status());
  if (value.is_string()) return get_slice(runtime, value, {std::nullopt, std::nullopt, -1});
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  return new_list(runtime, std::vector<Value>(items->items.rbegin(), items->items.rend()));
}

Result<Value> sort(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("sort", {"reverse", "case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  ASSIGN_OR_RETURN(const auto keys, sort_keys(runtime, items->items, slots[2], bool_or(slots[1], false)));
  ASSIGN_OR_RETURN(const auto order, sorted_order(runtime, keys, bool_or(slots[0], false)));
  std::vector<Value> out;
  for (size_t at : order) out.push_back(items->items[at]);
  return new_list(runtime, std::move(out));
}

Result<Value> dictsort(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("dictsort", {"case_sensitive", "by", "reverse"}));
  if (!value.is_dict()) {
    if (value.is_undefined()) return undefined_error(value);
    return Status(Code::kInvalidArgument, "dictsort: expected dict, got " + std::string(value.type_name()));
  }
  int64_t part = 0;
  if (slots[1] != nullptr) {
    if (!slots[1]->is_string() || (slots[1]->str() != "key" && slots[1]->str() != "value")) {
      return Status(Code::kInvalidArgument, "dictsort: by is 'key' or 'value'");
    }
    part = slots[1]->str() == "value" ? 1 : 0;
  }
  ASSIGN_OR_RETURN(const Value pairs, find_method(value, "items")(runtime, value, CallArgs{}));
  const Value path(part);
  ASSIGN_OR_RETURN(const auto keys, sort_keys(runtime, pairs.list().items, &path, bool_or(slots[0], false)));
  ASSIGN_OR_RETURN(const auto order, sorted_order(runtime, keys, bool_or(slots[2], false)));
  std::vector<Value> out;
  for (size_t at : order) out.push_back(pairs.list().items[at]);
  return new_list(runtime, std::move(out));
}

Result<Value> unique(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("unique", {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  ASSIGN_OR_RETURN(const auto keys, sort_keys(runtime, items->items, slots[1], bool_or(slots[0], false)));
  std::vector<Value> out;
  std::vector<const Value*> seen;
  for (size_t i = 0; i < keys.size(); ++i) {
    TRY(runtime.work(keys[i].weight(), 1 + seen.size() / 8));
    TRY(runtime.step(1 + seen.size() / 16));
    const bool known =
        std::any_of(seen.begin(), seen.end(), [&](const Value* old) { return equal(*old, keys[i]); });
    if (known) continue;
    seen.push_back(&keys[i]);
    out.push_back(items->items[i]);
  }
  return new_list(runtime, std::move(out));
}

template <bool kMax>
Result<Value> extreme(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind(kMax ? "max" : "min", {"case_sensitive", "attribute"}));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  if (items->items.empty()) return Value::undefined("an item of an empty sequence");
  ASSIGN_OR_RETURN(const auto keys, sort_keys(runtime, items->items, slots[1], bool_or(slots[0], false)));
  size_t best = 0;
  for (size_t i = 1; i < keys.size(); ++i) {
    TRY(runtime.work(std::min(keys[i].weight(), keys[best].weight())));
    ASSIGN_OR_RETURN(const int order, compare(keys[i], keys[best]));
    if (kMax ? order > 0 : order < 0) best = i;
  }
  return items->items[best];
}

Result<Value> sum(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("sum", {"attribute", "start"}));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  Value total = slots[1] == nullptr ? Value(int64_t{0}) : *slots[1];
  for (const Value& item : items->items) {
    ASSIGN_OR_RETURN(const Value part, follow_path(runtime, item, slots[0]));
    ASSIGN_OR_RETURN(total, apply_operator(runtime, Op::kAdd, total, part));
  }
  return total;
}

Result<Value> attr(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("attr", {"name"}));
  if (slots[0] == nullptr || !slots[0]->is_string())
    return Status(Code::kInvalidArgument, "attr: expected a name");
  if (const NativeFn method = find_method(value, slots[0]->str());
      method != nullptr || value.as_namespace() != nullptr) {
    return get_attribute(runtime, value, slots[0]->str());
  }
  return Value::undefined("attribute '" + slots[0]->str() + "'");  // items are not attributes here
}

}  // namespace

FilterFn find_sequence_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kFilters = {
      {"length", length},       {"count", length},      {"join", join},     {"first", end_item<false>},
      {"last", end_item<true>}, {"list", to_list},      {"items", items},   {"reverse", reverse},
      {"sort", sort},           {"dictsort", dictsort}, {"unique", unique}, {"min", extreme<false>},
      {"max", extreme<true>},   {"sum", sum},           {"attr", attr},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace isthmus::jinja
