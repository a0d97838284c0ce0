// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_predicates.h"

#include <unordered_map>

#include "text/jinja_filters.h"
#include "text/jinja_methods.h"
#include "text/jinja_operators.h"

namespace isthmus::jinja {
namespace {

// A test of the value alone.
template <bool (*kHolds)(const Value&)>
Result<bool> plain(Runtime&, const Value& value, const CallArgs& args) {
  TRY(args.bind("test", {}).status());
  return kHolds(value);
}

bool defined(const Value& v) {
  return !v.is_undefined();
}
bool undefined(const Value& v) {
  return v.is_undefined();
}
bool none(const Value& v) {
  return v.is_none();
}
bool boolean(const Value& v) {
  return v.is_bool();
}
bool is_true(const Value& v) {
  return v.is_bool() && v.as_bool();
}
bool is_false(const Value& v) {
  return v.is_bool() && !v.as_bool();
}
bool integer(const Value& v) {
  return v.is_int();
}
bool is_float(const Value& v) {
  return v.is_float();
}
bool number(const Value& v) {
  return v.is_number();
}
bool string(const Value& v) {
  return v.is_string();
}
bool mapping(const Value& v) {
  return v.is_dict();
}
bool sequence(const Value& v) {
  return v.is_string() || v.is_list() || v.is_dict() || v.is_undefined();
}
bool callable(const Value& v) {
  return v.as_callable() != nullptr;
}
bool escaped(const Value&) {
  return false;
}

template <Op kOp>
Result<bool> comparison(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("test", {"other"}));
  if (slots[0] == nullptr) return Status(Code::kInvalidArgument, "test: argument is missing");
  return apply_comparison(runtime, kOp, value, *slots[0]);
}

Result<bool> remainder_is(Runtime& runtime, const Value& value, const Value& divisor, int64_t wanted) {
  ASSIGN_OR_RETURN(const Value rest, apply_operator(runtime, Op::kMod, value, divisor));
  return equal(rest, Value(wanted));
}

template <int64_t kWanted>
Result<bool> parity(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("test", {}).status());
  return remainder_is(runtime, value, Value(int64_t{2}), kWanted);
}

Result<bool> divisible_by(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("divisibleby", {"num"}));
  if (slots[0] == nullptr) return Status(Code::kInvalidArgument, "divisibleby: argument is missing");
  return remainder_is(runtime, value, *slots[0], 0);
}

// Python's "is": the same object; equal scalars count as the same, as small ones do there.
Result<bool> same_as(Runtime& runtime, const Value& value, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto slots, args.bind("sameas", {"other"}));
  if (slots[0] == nullptr) return Status(Code::kInvalidArgument, "sameas: argument is missing");
  const Value& other = *slots[0];
  if (value.type_name() != other.type_name() || value.is_undefined()) return false;
  if (value.is_list()) return &value.list() == &other.list();
  if (value.is_dict()) return &value.dict() == &other.dict();
  return apply_comparison(runtime, Op::kEq, value, other);
}

template <bool kUpper>
Result<bool> has_case(Runtime& runtime, const Value& value, const CallArgs& args) {
  TRY(args.bind("test", {}).status());
  ASSIGN_OR_RETURN(std::string text, text_of(runtime, value));
  const Value holder(std::move(text));
  ASSIGN_OR_RETURN(const Value holds,
                   find_method(holder, kUpper ? "isupper" : "islower")(runtime, holder, args));
  return holds.truthy();
}

bool filter_name(const Value& v) {
  return v.is_string() && find_filter(v.str()) != nullptr;
}
bool test_name(const Value& v) {
  return v.is_string() && find_predicate(v.str()) != nullptr;
}

}  // namespace

PredicateFn find_predicate(std::string_view name) {
  static const std::unordered_map<std::string_view, PredicateFn> kPredicates = {
      {"defined", plain<defined>},
      {"undefined", plain<undefined>},
      {"none", plain<none>},
      {"boolean", plain<boolean>},
      {"true", plain<is_true>},
      {"false", plain<is_false>},
      {"integer", plain<integer>},
      {"float", plain<is_float>},
      {"number", plain<number>},
      {"string", plain<string>},
      {"mapping", plain<mapping>},
      {"sequence", plain<sequence>},
      {"iterable", plain<sequence>},  // the same kinds, since generators are lists here
      {"callable", plain<callable>},
      {"escaped", plain<escaped>},
      {"filter", plain<filter_name>},
      {"test", plain<test_name>},
      {"lower", has_case<false>},
      {"upper", has_case<true>},
      {"odd", parity<1>},
      {"even", parity<0>},
      {"divisibleby", divisible_by},
      {"sameas", same_as},
      {"in", comparison<Op::kIn>},
      {"==", comparison<Op::kEq>},
      {"eq", comparison<Op::kEq>},
      {"equalto", comparison<Op::kEq>},
      {"!=", comparison<Op::kNe>},
      {"ne", comparison<Op::kNe>},
      {"<", comparison<Op::kLt>},
      {"lt", comparison<Op::kLt>},
      {"lessthan", comparison<Op::kLt>},
      {"<=", comparison<Op::kLe>},
      {"le", comparison<Op::kLe>},
      {">", comparison<Op::kGt>},
      {"gt", comparison<Op::kGt>},
      {"greaterthan", comparison<Op::kGt>},
      {">=", comparison<Op::kGe>},
      {"ge", comparison<Op::kGe>},
  };
  const auto found = kPredicates.find(name);
  return found == kPredicates.end() ? nullptr : found->second;
}

}  // namespace isthmus::jinja
