// SPDX-License-Identifier: Apache-2.0
#include "front/request_fields.h"

#include <cmath>

namespace isthmus {
namespace {

constexpr size_t kShownBytes = 60;

std::string range_text(const char* kind, const std::string& low, const std::string& high) {
  return std::string(kind) + " from " + low + " to " + high;
}

std::string plain(double v) {
  return dump_ascii(v == std::floor(v) && std::abs(v) < 1e15 ? Json(static_cast<int64_t>(v)) : Json(v));
}

}  // namespace

std::string shown(const Json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return dump_ascii(text.substr(0, kShownBytes)) + (text.size() > kShownBytes ? "…" : "");
  }
  return dump_ascii(value);
}

const Json* RequestFields::value(std::string_view name) {
  read_.emplace(name);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

std::optional<int64_t> RequestFields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* v = value(name);
  if (v == nullptr) return std::nullopt;
  const auto got = find_int(object_, name, "body");
  if (!got.ok() || **got < low || **got > high) {
    expected(name, range_text("an integer", std::to_string(low), std::to_string(high)), *v);
    return std::nullopt;
  }
  return *got;
}

std::optional<double> RequestFields::number(std::string_view name, double low, double high) {
  const Json* v = value(name);
  if (v == nullptr) return std::nullopt;
  const auto got = find_double(object_, name, "body");
  if (!got.ok() || **got < low || **got > high) {
    expected(name, range_text("a number", plain(low), plain(high)), *v);
    return std::nullopt;
  }
  return *got;
}

std::optional<bool> RequestFields::boolean(std::string_view name) {
  const Json* v = value(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_boolean()) {
    expected(name, "true or false", *v);
    return std::nullopt;
  }
  return v->get<bool>();
}

std::optional<std::string> RequestFields::string(std::string_view name) {
  const Json* v = value(name);
  if (v == nullptr) return std::nullopt;
  if (!v->is_string()) {
    expected(name, "a string", *v);
    return std::nullopt;
  }
  return v->get_ref<const std::string&>();
}

void RequestFields::fail(std::string_view name, const std::string& what, Code code) {
  if (error_) return;
  const std::string param = prefix_ + std::string(name);
  error_ = ApiError{Status(code, param + ": " + what), param, {}, 0};
}

void RequestFields::expected(std::string_view name, std::string_view what, const Json& got) {
  fail(name, "expected " + std::string(what) + ", got " + shown(got));
}

void RequestFields::take_error(const RequestFields& inner) {
  if (!error_) error_ = inner.error_;
}

std::vector<std::string> RequestFields::names_not_read() const {
  std::vector<std::string> out;
  if (!object_.is_object()) return out;
  for (const auto& item : object_.items()) {
    if (!read_.contains(item.key())) out.push_back(item.key());
  }
  return out;
}

}  // namespace isthmus
