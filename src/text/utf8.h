// SPDX-License-Identifier: Apache-2.0
// UTF-8 by the Unicode standard's table 3-7 (no surrogates, no overlong forms, at most U+10FFFF). Pure
// functions on borrowed bytes; any thread. Ill-formed input is never an error here: it is measured
// (utf8_step) or replaced (utf8_lossy) by "maximal subparts", as browsers do. Not a normalizer (nfc.h) and
// not a character database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace isthmus {

inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind {
  kScalar,      // `length` bytes form `scalar`
  kIllFormed,   // `length` bytes (1..3) are one maximal ill-formed subpart
  kIncomplete,  // the bytes end inside what could still become a scalar; `length` is what is there (1..3)
};
struct Utf8Step {
  Utf8Kind kind;
  size_t length;
  char32_t scalar;
};

// The first unit of `bytes`, which must not be empty.
Utf8Step utf8_step(std::string_view bytes);

// Length of the longest well-formed prefix.
size_t utf8_valid_prefix(std::string_view bytes);

// Appends one scalar value (a valid one: callers pass what utf8_step gave or constants).
void utf8_append(char32_t scalar, std::string& out);

// Appends `bytes` with each ill-formed subpart replaced by U+FFFD; returns how many bytes at the end were
// left out because they are an incomplete scalar (0..3).
size_t utf8_append_lossy(std::string_view bytes, std::string& out);

// The whole of `bytes` as well-formed UTF-8; an incomplete tail gives one U+FFFD.
std::string utf8_lossy(std::string_view bytes);

}  // namespace isthmus
