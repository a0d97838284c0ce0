// SPDX-License-Identifier: Apache-2.0
// Reads the fields of one client object strictly: a wrong type or a value out of range becomes an error that
// names the field, and the first error stays. Remembers which names were asked for, so that what nobody asked
// for can be reported. One object per request, one thread; borrows the JSON. Not for files or peers (their
// readers are in base/json.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "front/api_error.h"

namespace isthmus {

class RequestFields {
 public:
  // `prefix` stands before every name in errors, e.g. "stream_options.". `object` may be of any type; one
  // that is no object has no fields.
  explicit RequestFields(const Json& object, std::string prefix = {})
      : object_(object), prefix_(std::move(prefix)) {}

  // The value, or null when the field is missing or null.
  const Json* value(std::string_view name);
  // nullopt when missing, null or wrong (then failed()). Limits are inclusive. 16.0 is an integer.
  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name);

  // Notes an error; only the first one counts.
  void fail(std::string_view name, const std::string& what, Code code = Code::kInvalidArgument);
  // "name: expected ..., got ..."
  void expected(std::string_view name, std::string_view what, const Json& got);
  void unsupported(std::string_view name, const std::string& what) { fail(name, what, Code::kUnsupported); }
  void take_error(const RequestFields& inner);

  bool failed() const { return error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  std::vector<std::string> names_not_read() const;

 private:
  const Json& object_;
  std::string prefix_;
  std::set<std::string, std::less<>> read_;
  std::optional<ApiError> error_;
};

// A value for an error message: numbers and words as they are, long ones cut, containers by kind.
std::string shown(const Json& value);

}  // namespace isthmus
