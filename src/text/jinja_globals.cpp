// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_globals.h"

#include <array>
#include <chrono>
#include <ctime>

#include "text/jinja_filter_arguments.h"
#include "text/jinja_runtime.h"

namespace isthmus::jinja {
namespace {

constexpr size_t kMaxRangeItems = 100'000;  // the reference sandbox's bound
constexpr size_t kMaxFormatBytes = 256;

Result<Value> range(Runtime& runtime, const Value&, const CallArgs& args) {
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
    return Status(Code::kInvalidArgument, "range: expected 1 to 3 arguments");
  }
  std::array<int64_t, 3> bounds = {0, 0, 1};
  for (size_t i = 0; i < args.positional.size(); ++i) {
    ASSIGN_OR_RETURN(bounds[i], int_or("range", &args.positional[i], 0));
  }
  if (args.positional.size() == 1) std::swap(bounds[0], bounds[1]);
  const auto [start, stop, step] = bounds;
  if (step == 0) return Status(Code::kInvalidArgument, "range: step is 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (items.size() == kMaxRangeItems) {
      return Status(Code::kResourceExhausted,
                    "range: more than " + std::to_string(kMaxRangeItems) + " items");
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return new_list(runtime, std::move(items));
}

// The arguments of dict(...) and namespace(...): a mapping or a list of pairs, then names.
Result<std::vector<std::pair<Value, Value>>> entries_of(Runtime& runtime, std::string_view name,
                                                        const CallArgs& args) {
  std::vector<std::pair<Value, Value>> entries;
  if (args.positional.size() > 1)
    return Status(Code::kInvalidArgument, std::string(name) + ": expected at most 1 argument");
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    entries = args.positional[0].dict().entries;
  } else if (!args.positional.empty()) {
    ASSIGN_OR_RETURN(const auto pairs, iterate(runtime, args.positional[0]));
    for (const Value& pair : pairs->items) {
      if (!pair.is_list() || pair.list().items.size() != 2) {
        return Status(Code::kInvalidArgument, std::string(name) + ": expected pairs");
      }
      TRY(runtime.step(1 + entries.size() / 8));
      put(entries, pair.list().items[0], pair.list().items[1]);
    }
  }
  TRY(runtime.work(entries.size(), 2 * sizeof(Value)));
  for (const auto& [key, value] : args.named) put(entries, Value(key), value);
  return entries;
}

Result<Value> dict(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(auto entries, entries_of(runtime, "dict", args));
  return make_dict(std::move(entries));
}

Result<Value> make_namespace(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto entries, entries_of(runtime, "namespace", args));
  Namespace* ns = runtime.new_namespace();
  for (const auto& [key, value] : entries) {
    if (!key.is_string()) return Status(Code::kInvalidArgument, "namespace: a name must be a str");
    ns->set(key.str(), value);
  }
  return Value(ns);
}

Result<Value> raise_exception(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("raise_exception", {"message"}));
  ASSIGN_OR_RETURN(std::string message, text_or(runtime, slots[0], ""));
  return Status(Code::kInvalidArgument, std::move(message));
}

Result<Value> strftime_now(Runtime& runtime, const Value&, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("strftime_now", {"format"}));
  if (slots[0] == nullptr || !slots[0]->is_string() || slots[0]->str().size() > kMaxFormatBytes) {
    return Status(Code::kInvalidArgument, "strftime_now: expected a format of at most 256 bytes");
  }
  const std::string& format = slots[0]->str();
  if (format.empty() || format.find('\0') != std::string::npos) return Value(format);
  const std::time_t now = std::chrono::system_clock::to_time_t(runtime.clock().wall_now());
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return Status(Code::kInternal, "strftime_now: no local time");
  std::array<char, 4096> buffer{};
  const size_t bytes = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return new_string(runtime, std::string(buffer.data(), bytes));
}

}  // namespace

const std::vector<std::pair<std::string_view, NativeFn>>& global_functions() {
  static const std::vector<std::pair<std::string_view, NativeFn>> kFunctions = {
      {"range", range},
      {"dict", dict},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  return kFunctions;
}

}  // namespace isthmus::jinja
