// SPDX-License-Identifier: Apache-2.0
// JSON, through nlohmann-json: parsing bytes from outside (depth and size bounded, errors as Status) and
// reading fields with a sentence that names the field. The only place where that library's exceptions are
// caught. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace isthmus {

using Json = nlohmann::ordered_json;  // keeps key order: templates and canonical forms depend on it

inline constexpr int kMaxJsonDepth = 64;
inline constexpr int kMaxJsonKeys = 8192;  // of one object; parse_json_sorted has no such limit
// A value of three bytes of text takes more than a hundred bytes of memory. Enough for a prompt of a million
// ids; parse_json_sorted has no such limit.
inline constexpr int64_t kMaxJsonValues = int64_t{1} << 20;
inline constexpr int64_t kMaxJsonContainers = int64_t{1} << 16;

// kInvalidArgument with `where` and the byte position. Duplicate keys: the last one wins. Refuses nesting
// over kMaxJsonDepth, and more than kMaxJsonValues values or kMaxJsonContainers arrays and objects.
Result<Json> parse_json(std::string_view text, std::string_view where);

// As parse_json, for files with very many keys in one object: keys come sorted, not in file order, and
// building the value is not quadratic in their number as it is for Json.
using SortedJson = nlohmann::json;
Result<SortedJson> parse_json_sorted(std::string_view text, std::string_view where);

// Compact ASCII text (non-ASCII escaped), invalid UTF-8 replaced: safe in a header.
std::string dump_ascii(const Json& j);
// Compact text, UTF-8 as it is; invalid UTF-8 replaced.
std::string dump_json(const Json& j);
// Keys sorted at every level, compact, ASCII: equal values give equal bytes (identities, digests).
std::string dump_canonical(const Json& j);

// Fields of an object. Missing or null: kInvalidArgument for get_*, nullopt for find_*; wrong type or out of
// range: error.
Result<int64_t> get_int(const Json& object, std::string_view key, std::string_view where);
Result<double> get_double(const Json& object, std::string_view key, std::string_view where);
Result<std::string> get_string(const Json& object, std::string_view key, std::string_view where);
Result<std::optional<int64_t>> find_int(const Json& object, std::string_view key, std::string_view where);
Result<std::optional<double>> find_double(const Json& object, std::string_view key, std::string_view where);
Result<std::optional<bool>> find_bool(const Json& object, std::string_view key, std::string_view where);
Result<std::optional<std::string>> find_string(const Json& object, std::string_view key,
                                               std::string_view where);

}  // namespace isthmus
