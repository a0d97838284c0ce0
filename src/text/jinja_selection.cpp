// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_selection.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <unordered_map>

#include "text/jinja_filters.h"
#include "text/jinja_predicates.h"
#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

Value path_part(std::string_view part) {
  int64_t index = 0;
  const auto parsed = std::from_chars(part.data(), part.data() + part.size(), index);
  const bool digits = !part.empty() && part[0] >= '0' && part[0] <= '9' && parsed.ec == std::errc() &&
                      parsed.ptr == part.data() + part.size();
  return digits ? Value(index) : Value(part);
}

struct Test {
  PredicateFn predicate = nullptr;  // null: truth
  CallArgs args;
};

// The test named by argument `at`, with the arguments after it.
Result<Test> test_argument(const CallArgs& args, size_t at) {
  Test test;
  if (args.positional.size() <= at) return test;
  const Value& name = args.positional[at];
  if (name.is_string()) test.predicate = find_predicate(name.str());
  if (test.predicate == nullptr)
    return Status(Code::kUnsupported, "unknown test " + to_repr(name).substr(0, 80));
  test.args.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                              args.positional.end());
  test.args.named = args.named;
  return test;
}

Result<Value> select_items(Runtime& runtime, const Value& value, const CallArgs& args, bool by_attribute,
                           bool keep) {
  if (by_attribute && args.positional.empty()) {
    return Status(Code::kInvalidArgument, "selectattr: attribute name is missing");
  }
  ASSIGN_OR_RETURN(const Test test, test_argument(args, by_attribute ? 1 : 0));
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  std::vector<Value> out;
  for (const Value& item : items->items) {
    TRY(runtime.step());
    ASSIGN_OR_RETURN(const Value subject,
                     follow_path(runtime, item, by_attribute ? &args.positional[0] : nullptr));
    bool holds = subject.truthy();
    if (test.predicate != nullptr) {
      ASSIGN_OR_RETURN(holds, test.predicate(runtime, subject, test.args));
    }
    if (holds == keep) out.push_back(item);
  }
  return new_list(runtime, std::move(out));
}

template <bool kByAttribute, bool kKeep>
Result<Value> selection(Runtime& runtime, const Value& value, const CallArgs& args) {
  return select_items(runtime, value, args, kByAttribute, kKeep);
}

Result<Value> map_attribute(Runtime& runtime, const List& items, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("map", {"attribute", "default"}));
  std::vector<Value> out;
  for (const Value& item : items.items) {
    ASSIGN_OR_RETURN(Value value, follow_path(runtime, item, slots[0], slots[1]));
    out.push_back(std::move(value));
  }
  return new_list(runtime, std::move(out));
}

Result<Value> map_filter(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto items, iterate(runtime, value));
  if (args.positional.empty()) return map_attribute(runtime, *items, args);
  const Value& name = args.positional[0];
  const FilterFn filter = name.is_string() ? find_filter(name.str()) : nullptr;
  if (filter == nullptr) return Status(Code::kUnsupported, "unknown filter " + to_repr(name).substr(0, 80));
  CallArgs rest;
  rest.positional.assign(args.positional.begin() + 1, args.positional.end());
  rest.named = args.named;
  std::vector<Value> out;
  TRY(runtime.enter());
  for (const Value& item : items->items) {
    TRY(runtime.step());
    ASSIGN_OR_RETURN(Value mapped, filter(runtime, item, rest));
    out.push_back(std::move(mapped));
  }
  runtime.leave();
  return new_list(runtime, std::move(out));
}

}  // namespace

Result<Value> follow_path(Runtime& runtime, Value item, const Value* path, const Value* fallback) {
  if (path == nullptr || path->is_none()) return item;
  std::vector<Value> parts;
  if (path->is_string()) {
    std::string_view rest = path->str();
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      parts.push_back(path_part(rest.substr(0, dot)));
      rest.remove_prefix(dot + 1);
    }
    parts.push_back(path_part(rest));
  } else {
    parts.push_back(*path);
  }
  for (const Value& part : parts) {
    ASSIGN_OR_RETURN(item, get_item(runtime, item, part));
    if (fallback != nullptr && item.is_undefined()) item = *fallback;
  }
  return item;
}

Result<std::vector<Value>> sort_keys(Runtime& runtime, const std::vector<Value>& items, const Value* path,
                                     bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(Value key, follow_path(runtime, item, path));
    TRY(runtime.work(key.weight() + sizeof(Value)));
    keys.push_back(key.is_string() && !case_sensitive ? Value(to_lower(key.str())) : std::move(key));
  }
  return keys;
}

Result<std::vector<size_t>> sorted_order(Runtime& runtime, const std::vector<Value>& keys, bool reverse) {
  for (const Value& key : keys) {
    if (keys.size() > 1) TRY(compare(key, keys[0]).status());
    TRY(runtime.work(key.weight() / 8 + 1, 64));  // a sort looks at each key about log2(n) times
  }
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Result<int> sign = compare(keys[a], keys[b]);
    return sign.ok() && (reverse ? *sign > 0 : *sign < 0);
  });
  return order;
}

FilterFn find_selection_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFn> kFilters = {
      {"select", selection<false, true>},
      {"reject", selection<false, false>},
      {"selectattr", selection<true, true>},
      {"rejectattr", selection<true, false>},
      {"map", map_filter},
  };
  const auto found = kFilters.find(name);
  return found == kFilters.end() ? nullptr : found->second;
}

}  // namespace isthmus::jinja
