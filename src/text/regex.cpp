// SPDX-License-Identifier: Apache-2.0
#include "text/regex.h"

#include <array>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace isthmus {
namespace {

// Backtracking steps per match. A whitespace run costs a few steps per byte, so a text of the largest request
// body passes.
constexpr uint32_t kMatchLimit = 128u << 20;
constexpr uint32_t kHeapLimitKib = 64u << 10;

struct CodeFree {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct ContextFree {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
struct DataFree {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};

std::string pcre_message(int code) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

size_t scalar_bytes(std::string_view text, size_t at) {
  size_t n = 1;
  while (at + n < text.size() && (static_cast<uint8_t>(text[at + n]) & 0xC0u) == 0x80u) ++n;
  return n;
}

}  // namespace

struct Regex::Impl {
  std::unique_ptr<pcre2_code, CodeFree> code;
  std::unique_ptr<pcre2_match_context, ContextFree> limits;
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE, &error, &offset, nullptr));
  if (!impl->code) {
    return Status(Code::kInternal, "regex: " + pcre_message(error) + " at offset " + std::to_string(offset));
  }
  // Failure only means that matching is interpreted (a system that forbids writable code pages).
  (void)pcre2_jit_compile(impl->code.get(), PCRE2_JIT_COMPLETE);
  impl->limits.reset(pcre2_match_context_create(nullptr));
  if (!impl->limits) return Status(Code::kResourceExhausted, "regex: no memory for a match context");
  pcre2_set_match_limit(impl->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(impl->limits.get(), kHeapLimitKib);
  return Regex(std::move(impl));
}

Status Regex::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const std::unique_ptr<pcre2_match_data, DataFree> data(pcre2_match_data_create(1, nullptr));
  if (!data) return Status(Code::kResourceExhausted, "regex: no memory for match data");
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
  size_t done = 0;  // pieces cover [0, done)
  size_t at = 0;    // where the next search starts
  while (at < text.size()) {
    const int rc = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                               PCRE2_NO_UTF_CHECK, data.get(), impl_->limits.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      return Status(Code::kResourceExhausted,
                    "regex: text of " + std::to_string(text.size()) + " bytes: " + pcre_message(rc));
    const size_t begin = span[0];
    const size_t end = span[1];
    if (end <= begin) {  // an empty match splits nothing; search on behind the next scalar
      at = begin < text.size() ? begin + scalar_bytes(text, begin) : text.size();
      continue;
    }
    if (begin > done) pieces.push_back(text.substr(done, begin - done));
    pieces.push_back(text.substr(begin, end - begin));
    done = at = end;
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
  return {};
}

}  // namespace isthmus
