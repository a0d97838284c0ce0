// SPDX-License-Identifier: Apache-2.0
// Text as Python sees it, for the template engine: strings count, slice, strip and change case by code point
// while they are stored as UTF-8. Every string inside the engine is valid UTF-8 (checked at its entrances); a
// stray byte would count as one code point, never as an error. Pure functions, any thread. Not a normaliser,
// not a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::jinja {

bool is_valid_utf8(std::string_view text);
// Bytes of the code point that starts at `pos` (1..4); pos < text.size().
size_t code_point_bytes(std::string_view text, size_t pos);
uint32_t decode_code_point(std::string_view text, size_t pos);
void append_code_point(std::string& out, uint32_t code_point);  // surrogates and > 0x10FFFF become U+FFFD

bool is_ascii(std::string_view text);
size_t count_code_points(std::string_view text);
// Byte offset of each code point, and text.size() last.
std::vector<size_t> code_point_offsets(std::string_view text);

bool is_python_space(uint32_t code_point);  // str.isspace of one character
bool is_all_space(std::string_view text);   // true for ""

enum class Side { kLeft, kRight, kBoth };
// str.strip: removes code points that are white space, or that occur in `chars` if it is not null.
std::string_view strip(std::string_view text, Side side, const std::string_view* chars = nullptr);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
bool is_letter(uint32_t code_point);
bool is_digit(uint32_t code_point);  // decimal digits only
bool is_upper(uint32_t code_point);
bool is_lower(uint32_t code_point);

// The first character of each run is raised, the rest lowered. `words` true: runs are separated by white
// space and
// ([{<- (the title filter); false: by anything that is not a letter (str.title).
std::string title_case(std::string_view text, bool words);

std::vector<std::string_view> split_lines(std::string_view text);  // str.splitlines
std::string replace_all(std::string_view text, std::string_view from, std::string_view to, int64_t count);
std::string html_escape(std::string_view text);
std::string python_string_repr(std::string_view text);
std::string python_float_repr(double value);

}  // namespace isthmus::jinja
