// SPDX-License-Identifier: Apache-2.0
// The alphabet in which byte-level BPE vocabularies are written: each byte is one printable scalar (GPT-2's
// table: printable Latin-1 stands for itself, the other 68 bytes are U+0100... in order). Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus {

// Spelling of `bytes` in the alphabet (UTF-8).
std::string byte_alphabet_encode(std::string_view bytes);

// Bytes that `spelling` stands for; nothing when a scalar is outside the alphabet or the UTF-8 is ill-formed.
std::optional<std::string> byte_alphabet_decode(std::string_view spelling);

}  // namespace isthmus
