// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

namespace isthmus {
namespace {

Status field_error(std::string_view where, std::string_view key, std::string_view expected, const Json& got) {
  return {Code::kInvalidArgument, std::string(where) + ": field '" + std::string(key) + "': expected " +
                                      std::string(expected) + ", got " + got.type_name()};
}

// The value, or null when the key is missing or null.
const Json* find_value(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

template <typename T>
Result<T> required(Result<std::optional<T>> found, std::string_view key, std::string_view where) {
  if (!found.ok()) return found.status();
  if (!found->has_value()) {
    return Status(Code::kInvalidArgument,
                  std::string(where) + ": field '" + std::string(key) + "' is missing");
  }
  return **found;
}

// Depth, keys per object (an ordered object is searched from its start for each key it gets), and how many
// values there are at all.
template <typename J>
struct Bounds {
  std::string broken;
  std::array<int, kMaxJsonDepth + 2> keys{};
  int64_t values = 0, containers = 0;

  bool admit(int depth, typename J::parse_event_t event) {
    if (!broken.empty()) return false;
    using Event = typename J::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) ++containers;
    if (event == Event::value) ++values;
    if (depth > kMaxJsonDepth) {
      broken = "JSON nested deeper than " + std::to_string(kMaxJsonDepth);
    } else if (event == J::parse_event_t::object_start) {
      keys[static_cast<size_t>(depth) + 1] = 0;
    } else if (event == J::parse_event_t::key && std::is_same_v<J, Json> &&
               ++keys[static_cast<size_t>(depth)] > kMaxJsonKeys) {
      broken = "JSON object with more than " + std::to_string(kMaxJsonKeys) + " keys";
    }
    if (std::is_same_v<J, Json> && (values > kMaxJsonValues || containers > kMaxJsonContainers)) {
      broken = "JSON of more than " + std::to_string(kMaxJsonValues) + " values or " +
               std::to_string(kMaxJsonContainers) + " arrays and objects";
    }
    return broken.empty();
  }
};

template <typename J>
Result<J> parse_bounded(std::string_view text, std::string_view where) {
  if (text.find('\0') != std::string_view::npos) {  // the library would take it for the end
    return Status(Code::kInvalidArgument, std::string(where) + ": not JSON (a NUL byte)");
  }
  Bounds<J> bounds;
  try {
    J parsed = J::parse(text, [&bounds](int depth, typename J::parse_event_t event, J&) {
      return bounds.admit(depth, event);
    });
    if (!bounds.broken.empty()) {
      return Status(Code::kInvalidArgument, std::string(where) + ": " + bounds.broken);
    }
    return parsed;
  } catch (const typename J::parse_error& e) {
    return Status(Code::kInvalidArgument, std::string(where) + ": not JSON (byte " + std::to_string(e.byte) +
                                              " of " + std::to_string(text.size()) + ")");
  } catch (const typename J::exception& e) {
    return Status(Code::kInvalidArgument,
                  std::string(where) + ": bad JSON value (error " + std::to_string(e.id) + ")");
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view where) {
  return parse_bounded<Json>(text, where);
}
Result<SortedJson> parse_json_sorted(std::string_view text, std::string_view where) {
  return parse_bounded<SortedJson>(text, where);
}

std::string dump_ascii(const Json& j) {
  return j.dump(-1, ' ', true, Json::error_handler_t::replace);
}
std::string dump_json(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}
std::string dump_canonical(const Json& j) {
  const nlohmann::json sorted = j;  // nlohmann::json keeps its keys sorted
  return sorted.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

Result<std::optional<int64_t>> find_int(const Json& object, std::string_view key, std::string_view where) {
  const Json* v = find_value(object, key);
  if (v == nullptr) return std::optional<int64_t>();
  if (v->is_number_unsigned() &&
      v->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return field_error(where, key, "an integer below 2^63", *v);
  }
  if (v->is_number_integer()) return std::optional<int64_t>(v->get<int64_t>());
  if (v->is_number_float()) {  // 16.0 is an integer to most clients
    const double d = v->get<double>();
    if (std::nearbyint(d) == d && std::abs(d) < 0x1p53)
      return std::optional<int64_t>(static_cast<int64_t>(d));
  }
  return field_error(where, key, "an integer", *v);
}

Result<std::optional<double>> find_double(const Json& object, std::string_view key, std::string_view where) {
  const Json* v = find_value(object, key);
  if (v == nullptr) return std::optional<double>();
  if (!v->is_number()) return field_error(where, key, "a number", *v);
  const double d = v->get<double>();
  if (!std::isfinite(d)) return field_error(where, key, "a finite number", *v);
  return std::optional<double>(d);
}

Result<std::optional<bool>> find_bool(const Json& object, std::string_view key, std::string_view where) {
  const Json* v = find_value(object, key);
  if (v == nullptr) return std::optional<bool>();
  if (!v->is_boolean()) return field_error(where, key, "true or false", *v);
  return std::optional<bool>(v->get<bool>());
}

Result<std::optional<std::string>> find_string(const Json& object, std::string_view key,
                                               std::string_view where) {
  const Json* v = find_value(object, key);
  if (v == nullptr) return std::optional<std::string>();
  if (!v->is_string()) return field_error(where, key, "a string", *v);
  return std::optional<std::string>(v->get<std::string>());
}

Result<int64_t> get_int(const Json& object, std::string_view key, std::string_view where) {
  return required<int64_t>(find_int(object, key, where), key, where);
}
Result<double> get_double(const Json& object, std::string_view key, std::string_view where) {
  return required<double>(find_double(object, key, where), key, where);
}
Result<std::string> get_string(const Json& object, std::string_view key, std::string_view where) {
  return required<std::string>(find_string(object, key, where), key, where);
}

}  // namespace isthmus
