// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

namespace isthmus {
namespace {

struct Lead {
  size_t length;             // bytes of the whole scalar; 0: not a lead byte
  uint8_t second_lo = 0x80;  // allowed range of the second byte
  uint8_t second_hi = 0xBF;
};

Lead classify_lead(uint8_t b) {
  if (b < 0x80) return {1};
  if (b < 0xC2) return {0};
  if (b < 0xE0) return {2};
  if (b == 0xE0) return {3, 0xA0, 0xBF};
  if (b == 0xED) return {3, 0x80, 0x9F};
  if (b < 0xF0) return {3};
  if (b == 0xF0) return {4, 0x90, 0xBF};
  if (b < 0xF4) return {4};
  if (b == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const Lead lead = classify_lead(at(0));
  if (lead.length == 0) return {Utf8Kind::kIllFormed, 1, 0};
  if (lead.length == 1) return {Utf8Kind::kScalar, 1, at(0)};
  char32_t scalar = at(0) & (0x7Fu >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, i, 0};
    const uint8_t lo = i == 1 ? lead.second_lo : 0x80;
    const uint8_t hi = i == 1 ? lead.second_hi : 0xBF;
    if (at(i) < lo || at(i) > hi) return {Utf8Kind::kIllFormed, i, 0};
    scalar = (scalar << 6) | (at(i) & 0x3Fu);
  }
  return {Utf8Kind::kScalar, lead.length, scalar};
}

size_t utf8_valid_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind != Utf8Kind::kScalar) break;
    at += step.length;
  }
  return at;
}

void utf8_append(char32_t scalar, std::string& out) {
  const auto put = [&](char32_t v) { out.push_back(static_cast<char>(static_cast<uint8_t>(v))); };
  if (scalar < 0x80) return put(scalar);
  if (scalar < 0x800) {
    put(0xC0 | (scalar >> 6));
  } else {
    if (scalar < 0x10000) {
      put(0xE0 | (scalar >> 12));
    } else {
      put(0xF0 | (scalar >> 18));
      put(0x80 | ((scalar >> 12) & 0x3F));
    }
    put(0x80 | ((scalar >> 6) & 0x3F));
  }
  put(0x80 | (scalar & 0x3F));
}

size_t utf8_append_lossy(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const size_t good = utf8_valid_prefix(bytes);
    out.append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    const Utf8Step step = utf8_step(bytes);
    if (step.kind == Utf8Kind::kIncomplete) return step.length;
    out.append(kReplacementUtf8);
    bytes.remove_prefix(step.length);
  }
  return 0;
}

std::string utf8_lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (utf8_append_lossy(bytes, out) != 0) out.append(kReplacementUtf8);
  return out;
}

}  // namespace isthmus
