// SPDX-License-Identifier: Apache-2.0
#include "apps/render.h"

#include <algorithm>
#include <cstdio>

namespace isthmus {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string number_text(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

std::string scalar_text(std::string_view name, const Json& v) {
  if (v.is_null()) return "none";
  if (v.is_boolean()) return v.get<bool>() ? "yes" : "no";
  if (v.is_string()) return v.get<std::string>();
  if (v.is_number_float()) return number_text(v.get<double>());
  if (v.is_number_unsigned() || v.is_number_integer()) {
    const std::string plain = dump_json(v);
    const bool large = v.get<int64_t>() >= 1024;
    return name.ends_with("bytes") && large ? human_bytes(v.get<uint64_t>()) + " (" + plain + ")" : plain;
  }
  return dump_json(v);
}

bool is_table(const Json& v) {
  return v.is_array() && !v.empty() &&
         std::all_of(v.begin(), v.end(), [](const Json& row) { return row.is_object(); });
}

Rows table_rows(const Json& table) {
  Rows rows(1);
  for (const auto& [name, ignored] : table.front().items()) rows[0].push_back(name);
  for (const Json& item : table) {
    std::vector<std::string> row;
    for (const std::string& name : rows[0])
      row.push_back(item.contains(name) ? scalar_text("", item[name]) : "");
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string table_text(const Json& table, int indent) {
  const Rows rows = table_rows(table);
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string list_text(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : ", ") + scalar_text("", item);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

std::string readable(const Json& object, int indent) {
  size_t width = 0;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_object() && !is_table(value)) width = std::max(width, name.size());
  }
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string text;
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      text += margin + name + "\n" + readable(value, indent + 2);
    } else if (is_table(value)) {
      text += margin + name + "\n" + table_text(value, indent + 2);
    } else {
      const std::string shown = value.is_array() ? list_text(value) : scalar_text(name, value);
      text += margin + name + std::string(width - name.size() + 2, ' ') + shown + "\n";
    }
  }
  return text;
}

void show(const Json& object, bool as_json, const std::vector<std::string_view>& only_json) {
  if (as_json) {
    std::puts(dump_json(object).c_str());
    return;
  }
  Json shorter = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (std::find(only_json.begin(), only_json.end(), name) == only_json.end()) shorter[name] = value;
  }
  std::fputs(readable(shorter).c_str(), stdout);
}

}  // namespace isthmus
