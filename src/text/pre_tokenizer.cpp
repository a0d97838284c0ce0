// SPDX-License-Identifier: Apache-2.0
#include "text/pre_tokenizer.h"

#include <string>

#include "text/utf8.h"

namespace isthmus {
namespace {

// The published regexes, as they stand in the models' tokenizer.json.
constexpr std::string_view kPublishedGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPublishedQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kPublishedLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Unicode White_Space. PCRE2's own \s differs from it (it has U+180E), and the published regexes were written
// for engines that follow the standard.
constexpr std::string_view kSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// A published regex in PCRE2's words: \s and \S become explicit classes.
std::string with_explicit_space(std::string_view published) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < published.size(); ++i) {
    const char c = published[i];
    const char next = i + 1 < published.size() ? published[i + 1] : '\0';
    if (c == '\\' && (next == 's' || next == 'S')) {
      if (!in_class) out += next == 's' ? "[" : "[^";
      out += kSpace;
      if (!in_class) out += "]";
      ++i;
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

Result<Regex> compile_rule(SplitRule rule) {
  switch (rule) {
    case SplitRule::kDigits:
      return Regex::compile(R"(\p{N})");
    case SplitRule::kDigitRuns:
      return Regex::compile(R"(\p{N}+)");
    case SplitRule::kGpt2:
      return Regex::compile(with_explicit_space(kPublishedGpt2));
    case SplitRule::kQwen2:
      return Regex::compile(with_explicit_space(kPublishedQwen2));
    case SplitRule::kLlama3:
      return Regex::compile(with_explicit_space(kPublishedLlama3));
  }
  return Status(Code::kUnsupported,
                "pre_tokenizer: split rule " + std::to_string(static_cast<int>(rule)) + " is not known");
}

size_t ill_formed_run(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind == Utf8Kind::kScalar) break;
    at += step.length;
  }
  return at;
}

}  // namespace

std::optional<SplitRule> split_rule_of_regex(std::string_view regex) {
  if (regex == kPublishedGpt2) return SplitRule::kGpt2;
  if (regex == kPublishedQwen2) return SplitRule::kQwen2;
  if (regex == kPublishedLlama3) return SplitRule::kLlama3;
  if (regex == R"(\p{N})") return SplitRule::kDigits;
  if (regex == R"(\p{N}+)") return SplitRule::kDigitRuns;
  return std::nullopt;
}

Result<PreTokenizer> PreTokenizer::create(const std::vector<SplitRule>& rules) {
  PreTokenizer out;
  for (const SplitRule rule : rules) {
    ASSIGN_OR_RETURN(Regex regex, compile_rule(rule));
    out.stages_.push_back(std::move(regex));
  }
  return out;
}

Status PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  std::vector<std::string_view> current;
  std::vector<std::string_view> next;
  while (!text.empty()) {
    const size_t good = utf8_valid_prefix(text);
    if (good > 0) {
      current.assign(1, text.substr(0, good));
      for (const Regex& stage : stages_) {
        next.clear();
        for (const std::string_view piece : current) TRY(stage.split(piece, next));
        current.swap(next);
      }
      pieces.insert(pieces.end(), current.begin(), current.end());
      text.remove_prefix(good);
    }
    if (const size_t bad = ill_formed_run(text); bad > 0) {
      pieces.push_back(text.substr(0, bad));
      text.remove_prefix(bad);
    }
  }
  return {};
}

}  // namespace isthmus
