// SPDX-License-Identifier: Apache-2.0
#include "text/added_tokens.h"

#include "text/utf8.h"

namespace isthmus {
namespace {

// Unicode White_Space.
bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

size_t leading_space_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::kScalar || !is_space(step.scalar)) break;
    at += step.length;
  }
  return at;
}

size_t trailing_space_bytes(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0u) == 0x80u) --begin;
    const Utf8Step step = utf8_step(text.substr(begin, end - begin));
    if (step.kind != Utf8Kind::kScalar || step.length != end - begin || !is_space(step.scalar)) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher() : nodes_(1) {}

uint32_t AddedTokenMatcher::child(uint32_t node, uint8_t byte) const {
  for (const auto& [label, target] : nodes_[node].children) {
    if (label == byte) return target;
  }
  return 0;
}

void AddedTokenMatcher::add(std::string_view spelling, const AddedToken& token) {
  if (spelling.empty()) return;
  uint32_t node = 0;
  for (const char c : spelling) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].children.emplace_back(byte, next);
    }
    node = next;
  }
  first_byte_[static_cast<uint8_t>(spelling.front())] = true;
  if (nodes_[node].token >= 0) return;
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

std::pair<int32_t, size_t> AddedTokenMatcher::longest_match(std::string_view text) const {
  std::pair<int32_t, size_t> best{-1, 0};
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    node = child(node, static_cast<uint8_t>(text[i]));
    if (node == 0) break;
    if (nodes_[node].token >= 0) best = {nodes_[node].token, i + 1};
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, bool parse_special,
                              std::vector<TextSegment>& out) const {
  size_t done = 0;  // segments cover [0, done)
  size_t at = 0;
  while (at < text.size()) {
    if (!first_byte_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    const auto [index, length] = longest_match(text.substr(at));
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    size_t begin = at;
    size_t end = at + length;
    at = end;
    if (token.special && !parse_special)
      continue;  // its spelling is text, and hides shorter tokens inside it
    if (token.lstrip) begin -= trailing_space_bytes(text.substr(done, begin - done));
    if (token.rstrip) end += leading_space_bytes(text.substr(end));
    if (begin > done) out.push_back({text.substr(done, begin - done), -1});
    out.push_back({text.substr(begin, end - begin), token.id});
    done = at = end;
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
}

}  // namespace isthmus
