// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja_text.h"

namespace isthmus::jinja {
namespace {

using nlohmann::ordered_json;

Result<Value> convert(const ordered_json& json, int depth) {
  if (depth > kMaxValueDepth) {
    return Status(Code::kResourceExhausted,
                  "JSON nests deeper than " + std::to_string(kMaxValueDepth) + " levels");
  }
  switch (json.type()) {
    case ordered_json::value_t::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (const auto& [key, item] : json.items()) {
        if (!is_valid_utf8(key)) return Status(Code::kInvalidArgument, "JSON key is not UTF-8");
        ASSIGN_OR_RETURN(Value value, convert(item, depth + 1));
        entries.emplace_back(Value(key), std::move(value));
      }
      return make_dict(std::move(entries));
    }
    case ordered_json::value_t::array: {
      std::vector<Value> items;
      for (const ordered_json& item : json) {
        ASSIGN_OR_RETURN(Value value, convert(item, depth + 1));
        items.push_back(std::move(value));
      }
      return make_list(std::move(items));
    }
    case ordered_json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!is_valid_utf8(text)) return Status(Code::kInvalidArgument, "JSON string is not UTF-8");
      return Value(text);
    }
    case ordered_json::value_t::boolean:
      return Value(json.get<bool>());
    case ordered_json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case ordered_json::value_t::number_unsigned: {
      const auto n = json.get<uint64_t>();
      if (n > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return Value(static_cast<double>(n));
      return Value(static_cast<int64_t>(n));
    }
    case ordered_json::value_t::number_float:
      return Value(json.get<double>());
    default:
      return Value();
  }
}

void append_escape(std::string& out, uint32_t unit) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(unit >> shift) & 15];
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style)
      : style_(style), item_separator_(style.item_separator.value_or(style.indent ? "," : ", ")) {}

  Status write(const Value& value, int level) {
    if (value.is_string()) {
      write_string(value.str());
    } else if (value.is_dict()) {
      return write_dict(value.dict(), level);
    } else if (value.is_list()) {
      return write_list(value.list(), level);
    } else if (!write_scalar(value)) {
      if (value.is_undefined())
        return {Code::kInvalidArgument, "tojson: " + value.undefined_name() + " is undefined"};
      return {Code::kInvalidArgument, "tojson: JSON holds no " + std::string(value.type_name())};
    }
    return {};
  }

  std::string take() { return std::move(out_); }

 private:
  bool write_scalar(const Value& value) {
    if (value.is_none()) {
      out_ += "null";
    } else if (value.is_bool()) {
      out_ += value.as_bool() ? "true" : "false";
    } else if (value.is_int()) {
      out_ += std::to_string(value.as_int());
    } else if (value.is_float()) {
      const double number = value.as_double();
      if (std::isnan(number)) {
        out_ += "NaN";
      } else if (std::isinf(number)) {
        out_ += number < 0 ? "-Infinity" : "Infinity";
      } else {
        out_ += python_float_repr(number);
      }
    } else {
      return false;
    }
    return true;
  }

  void write_string(std::string_view text) {
    constexpr std::string_view kPlain = "\"\\\n\r\t\f\b";
    constexpr std::string_view kNames = "\"\\nrtfb";
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const size_t n = code_point_bytes(text, pos);
      const uint32_t c = decode_code_point(text, pos);
      const size_t named = c < 0x80 ? kPlain.find(static_cast<char>(c)) : std::string_view::npos;
      if (named != std::string_view::npos) {
        out_ += '\\';
        out_ += kNames[named];
      } else if (c < 0x20 || (style_.ensure_ascii && c >= 0x7F && c < 0x10000 && c != 0x7F)) {
        append_escape(out_, c);
      } else if (style_.ensure_ascii && c >= 0x10000) {
        append_escape(out_, 0xD800 + ((c - 0x10000) >> 10));
        append_escape(out_, 0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        out_.append(text.substr(pos, n));
      }
      pos += n;
    }
    out_ += '"';
  }

  void new_line(int level) {
    if (!style_.indent) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(*style_.indent) * static_cast<size_t>(level), ' ');
  }

  Status write_list(const List& list, int level) {
    if (list.items.empty()) {
      out_ += "[]";
      return {};
    }
    out_ += '[';
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      new_line(level + 1);
      TRY(write(list.items[i], level + 1));
    }
    new_line(level);
    out_ += ']';
    return {};
  }

  Status write_key(const Value& key) {
    if (key.is_string()) {
      write_string(key.str());
      return {};
    }
    out_ += '"';
    if (!write_scalar(key)) {
      return {Code::kInvalidArgument, "tojson: a key cannot be a " + std::string(key.type_name())};
    }
    out_ += '"';
    return {};
  }

  Status write_dict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out_ += "{}";
      return {};
    }
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (style_.sort_keys) {
      for (const auto* entry : order) TRY(compare(entry->first, order[0]->first).status());
      std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        const Result<int> sign = compare(a->first, b->first);
        return sign.ok() && *sign < 0;
      });
    }
    out_ += '{';
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_ += item_separator_;
      new_line(level + 1);
      TRY(write_key(order[i]->first));
      out_ += style_.key_separator;
      TRY(write(order[i]->second, level + 1));
    }
    new_line(level);
    out_ += '}';
    return {};
  }

  const JsonStyle& style_;
  std::string item_separator_;
  std::string out_;
};

}  // namespace

Result<Value> from_json(const ordered_json& json) {
  return convert(json, 0);
}

Result<std::string> to_json(const Value& value, const JsonStyle& style) {
  Writer writer(style);
  TRY(writer.write(value, 0));
  return writer.take();
}

}  // namespace isthmus::jinja
