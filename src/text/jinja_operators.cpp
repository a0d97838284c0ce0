// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

Status type_error(std::string_view symbol, const Value& left, const Value& right) {
  for (const Value* side : {&left, &right}) {
    if (side->is_undefined()) return undefined_error(*side);
  }
  return {Code::kInvalidArgument, "operator " + std::string(symbol) + " takes no " +
                                      std::string(left.type_name()) + " and " +
                                      std::string(right.type_name())};
}

Status overflow() {
  return {Code::kInvalidArgument, "integer does not fit 64 bits"};
}
Status zero_division() {
  return {Code::kInvalidArgument, "division by zero"};
}

std::string_view symbol(Op op) {
  constexpr std::string_view kSymbols[] = {"+",  "-",  "*", "/",  "//", "%",  "**", "~",
                                           "==", "!=", "<", "<=", ">",  ">=", "in", "not in"};
  return kSymbols[static_cast<size_t>(op)];
}

Result<Value> integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return zero_division();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value(result);
}

// Quotient rounded towards minus infinity; `remainder` gets the divisor's sign.
Result<Value> floor_divide(int64_t a, int64_t b, bool remainder) {
  if (b == 0) return zero_division();
  if (b == -1) {
    if (remainder) return Value(int64_t{0});
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negated)) return overflow();
    return Value(negated);
  }
  int64_t quotient = a / b;
  int64_t rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return Value(remainder ? rest : quotient);
}

Result<Value> integer_operator(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Op::kAdd:
      return __builtin_add_overflow(a, b, &out) ? Result<Value>(overflow()) : Value(out);
    case Op::kSub:
      return __builtin_sub_overflow(a, b, &out) ? Result<Value>(overflow()) : Value(out);
    case Op::kMul:
      return __builtin_mul_overflow(a, b, &out) ? Result<Value>(overflow()) : Value(out);
    case Op::kDiv:
      if (b == 0) return zero_division();
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Op::kPow:
      return integer_power(a, b);
    default:
      return floor_divide(a, b, op == Op::kMod);
  }
}

Result<Value> float_operator(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd:
      return Value(a + b);
    case Op::kSub:
      return Value(a - b);
    case Op::kMul:
      return Value(a * b);
    case Op::kPow:
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return zero_division();
  if (op == Op::kDiv) return Value(a / b);
  if (op == Op::kFloorDiv) return Value(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Result<Value> repeat(Runtime& runtime, const Value& value, int64_t times) {
  const size_t count = times > 0 ? static_cast<size_t>(times) : 0;
  if (value.is_string()) {
    TRY(runtime.work(count, value.str().size()));
    std::string out;
    if (value.str().empty()) return Value(out);
    for (size_t i = 0; i < count; ++i) out += value.str();
    return Value(std::move(out));
  }
  const List& list = value.list();
  TRY(runtime.work(count, list.items.size() * sizeof(Value)));
  std::vector<Value> out;
  if (list.items.empty()) return make_list({}, list.tuple);
  for (size_t i = 0; i < count; ++i) out.insert(out.end(), list.items.begin(), list.items.end());
  return make_list(std::move(out), list.tuple);
}

Result<Value> concatenate(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_string()) {
    std::string out;
    TRY(runtime.work(left.str().size() + right.str().size()));
    out.reserve(left.str().size() + right.str().size());
    return Value(out.append(left.str()).append(right.str()));
  }
  std::vector<Value> out = left.list().items;
  out.insert(out.end(), right.list().items.begin(), right.list().items.end());
  return new_list(runtime, std::move(out), left.list().tuple);
}

Result<bool> contains(Runtime& runtime, const Value& element, const Value& container) {
  TRY(runtime.work(container.weight()));
  if (container.is_string()) {
    if (!element.is_string()) return type_error("in", element, container);
    return container.str().find(element.str()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(element) != nullptr;
  if (container.is_list()) {
    const auto& items = container.list().items;
    return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, element); });
  }
  if (container.is_undefined()) return false;
  return type_error("in", element, container);
}

// A Python index: negative counts from the end. -1 if out of range.
int64_t normal_index(int64_t index, size_t size) {
  const auto n = static_cast<int64_t>(size);
  if (index < 0) index = index < -n ? -1 : index + n;
  return index < n ? index : -1;
}

// The positions that a slice of `length` elements takes; the step is not 0.
std::vector<size_t> slice_positions(size_t length, const SliceBounds& bounds) {
  const auto size = static_cast<int64_t>(length);
  const int64_t step = bounds.step.value_or(1);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t fallback) {
    if (!bound) return fallback;
    if (*bound < -size) return low;
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const int64_t stop = clamp(bounds.stop, step > 0 ? high : low);
  std::vector<size_t> positions;
  for (int64_t i = clamp(bounds.start, step > 0 ? low : high); step > 0 ? i < stop : i > stop;) {
    positions.push_back(static_cast<size_t>(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return positions;
}

bool is_sequence(const Value& value) {
  return value.is_string() || value.is_list();
}
bool is_whole(const Value& value) {
  return value.is_int() || value.is_bool();
}

bool same_sequences(const Value& left, const Value& right) {
  if (left.is_string()) return right.is_string();
  return left.is_list() && right.is_list() && left.list().tuple == right.list().tuple;
}

}  // namespace

Status undefined_error(const Value& value) {
  return {Code::kInvalidArgument, value.undefined_name() + " is undefined"};
}

Result<Value> new_string(Runtime& runtime, std::string text) {
  TRY(runtime.work(text.size()));
  return Value(std::move(text));
}

Result<Value> new_list(Runtime& runtime, std::vector<Value> items, bool tuple) {
  TRY(runtime.work(items.size(), sizeof(Value)));
  return make_list(std::move(items), tuple);
}

Result<std::string> text_of(Runtime& runtime, const Value& value) {
  TRY(runtime.work(value.weight()));
  return to_text(value);
}

Result<Value> apply_operator(Runtime& runtime, Op op, const Value& left, const Value& right) {
  if (op == Op::kConcat) {
    ASSIGN_OR_RETURN(std::string text, text_of(runtime, left));
    ASSIGN_OR_RETURN(const std::string tail, text_of(runtime, right));
    return Value(std::move(text += tail));
  }
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) return float_operator(op, left.as_double(), right.as_double());
    return integer_operator(op, left.as_int(), right.as_int());
  }
  if (op == Op::kAdd && same_sequences(left, right)) return concatenate(runtime, left, right);
  if (op == Op::kMul && is_sequence(left) && is_whole(right)) return repeat(runtime, left, right.as_int());
  if (op == Op::kMul && is_whole(left) && is_sequence(right)) return repeat(runtime, right, left.as_int());
  return type_error(symbol(op), left, right);
}

Result<bool> apply_comparison(Runtime& runtime, Op op, const Value& left, const Value& right) {
  if (op == Op::kIn || op == Op::kNotIn) {
    ASSIGN_OR_RETURN(const bool found, contains(runtime, left, right));
    return found == (op == Op::kIn);
  }
  TRY(runtime.work(std::min(left.weight(), right.weight())));
  if (op == Op::kEq) return equal(left, right);
  if (op == Op::kNe) return !equal(left, right);
  if (left.is_float() || right.is_float()) {  // a NaN has no order
    const bool numbers = left.is_number() && right.is_number();
    if (numbers && (std::isnan(left.as_double()) || std::isnan(right.as_double()))) return false;
  }
  ASSIGN_OR_RETURN(const int order, compare(left, right));
  switch (op) {
    case Op::kLt:
      return order < 0;
    case Op::kLe:
      return order <= 0;
    case Op::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

Result<Value> negate(const Value& value) {
  if (value.is_float()) return Value(-value.as_double());
  if (value.is_number()) return integer_operator(Op::kSub, 0, value.as_int());
  if (value.is_undefined()) return undefined_error(value);
  return Status(Code::kInvalidArgument, "operator - takes no " + std::string(value.type_name()));
}

Result<Value> get_item(Runtime& runtime, const Value& value, const Value& key) {
  TRY(runtime.step());
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_dict()) {
    TRY(runtime.step(value.dict().entries.size() / 8));
    if (const Value* found = value.dict().find(key)) return *found;
  } else if (value.is_list() && (key.is_int() || key.is_bool())) {
    const int64_t index = normal_index(key.as_int(), value.list().items.size());
    if (index >= 0) return value.list().items[static_cast<size_t>(index)];
  } else if (value.is_string() && (key.is_int() || key.is_bool())) {
    TRY(runtime.work(value.str().size()));
    const int64_t index = normal_index(key.as_int(), count_code_points(value.str()));
    if (index >= 0) {
      size_t pos = 0;
      for (int64_t i = 0; i < index; ++i) pos += code_point_bytes(value.str(), pos);
      return Value(value.str().substr(pos, code_point_bytes(value.str(), pos)));
    }
  }
  if (key.is_string()) return get_attribute(runtime, value, key.str());
  return Value::undefined("item " + to_repr(key).substr(0, 80) + " of a " + std::string(value.type_name()));
}

Result<Value> get_slice(Runtime& runtime, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_string() && !value.is_list()) {
    return Status(Code::kInvalidArgument, std::string(value.type_name()) + " cannot be sliced");
  }
  if (bounds.step == 0) return Status(Code::kInvalidArgument, "slice step is 0");
  TRY(runtime.work(value.weight()));
  if (value.is_list()) {
    std::vector<Value> items;
    for (size_t at : slice_positions(value.list().items.size(), bounds))
      items.push_back(value.list().items[at]);
    return make_list(std::move(items), value.list().tuple);
  }
  const std::vector<size_t> offsets = code_point_offsets(value.str());
  std::string text;
  for (size_t at : slice_positions(offsets.size() - 1, bounds)) {
    text.append(value.str(), offsets[at], offsets[at + 1] - offsets[at]);
  }
  return Value(std::move(text));
}

Result<std::shared_ptr<const List>> iterate(Runtime& runtime, const Value& value) {
  auto out = std::make_shared<List>();
  if (value.is_list()) {
    TRY(runtime.work(value.list().items.size(), sizeof(Value)));
    *out = value.list();
  } else if (value.is_dict()) {
    TRY(runtime.work(value.dict().entries.size(), sizeof(Value)));
    for (const auto& [key, entry] : value.dict().entries) out->items.push_back(key);
    out->depth = value.dict().depth;
  } else if (value.is_string()) {
    TRY(runtime.work(value.str().size(), sizeof(Value) * 3));
    const std::string& text = value.str();
    for (size_t pos = 0; pos < text.size(); pos += code_point_bytes(text, pos)) {
      out->items.emplace_back(text.substr(pos, code_point_bytes(text, pos)));
    }
  } else if (!value.is_undefined()) {
    return Status(Code::kInvalidArgument, std::string(value.type_name()) + " cannot be iterated");
  }
  return std::shared_ptr<const List>(std::move(out));
}

}  // namespace isthmus::jinja
