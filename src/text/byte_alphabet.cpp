// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace isthmus {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kSubstitutes = 68;

constexpr bool stands_for_itself(unsigned b) {
  return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
}

struct Tables {
  std::array<char32_t, 256> scalar_of_byte{};
  std::array<uint8_t, kSubstitutes> byte_of_substitute{};
};

constexpr Tables make_tables() {
  Tables t;
  size_t n = 0;
  for (unsigned b = 0; b < 256; ++b) {
    if (stands_for_itself(b)) {
      t.scalar_of_byte[b] = b;
    } else {
      t.byte_of_substitute[n] = static_cast<uint8_t>(b);
      t.scalar_of_byte[b] = kFirstSubstitute + static_cast<char32_t>(n++);
    }
  }
  return t;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::string byte_alphabet_encode(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) utf8_append(kTables.scalar_of_byte[static_cast<uint8_t>(c)], out);
  return out;
}

std::optional<std::string> byte_alphabet_decode(std::string_view spelling) {
  std::string out;
  while (!spelling.empty()) {
    const Utf8Step step = utf8_step(spelling);
    if (step.kind != Utf8Kind::kScalar) return std::nullopt;
    const char32_t s = step.scalar;
    if (s < 0x100 && stands_for_itself(s)) {
      out.push_back(static_cast<char>(static_cast<uint8_t>(s)));
    } else if (s >= kFirstSubstitute && s < kFirstSubstitute + kSubstitutes) {
      out.push_back(static_cast<char>(kTables.byte_of_substitute[s - kFirstSubstitute]));
    } else {
      return std::nullopt;
    }
    spelling.remove_prefix(step.length);
  }
  return out;
}

}  // namespace isthmus
