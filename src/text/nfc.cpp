// SPDX-License-Identifier: Apache-2.0
#include "text/nfc.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "text/utf8.h"

namespace isthmus {
namespace {

struct FreeDeleter {
  void operator()(utf8proc_uint8_t* p) const { std::free(p); }
};

// `text` is well formed.
Status append_nfc(std::string_view text, std::string& out) {
  if (text.empty()) return {};
  utf8proc_uint8_t* raw = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                          static_cast<utf8proc_ssize_t>(text.size()), &raw, options);
  const std::unique_ptr<utf8proc_uint8_t, FreeDeleter> owned(raw);
  if (n < 0) return Status(Code::kResourceExhausted, std::string("nfc: ") + utf8proc_errmsg(n));
  out.append(reinterpret_cast<const char*>(raw), static_cast<size_t>(n));
  return {};
}

}  // namespace

Result<std::string> normalize_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;  // start of the well-formed part not yet normalized
  size_t at = 0;
  size_t marks = 0;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      marks = 0;
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text.substr(at));
    const bool scalar = step.kind == Utf8Kind::kScalar;
    const bool mark =
        scalar && utf8proc_get_property(static_cast<utf8proc_int32_t>(step.scalar))->combining_class != 0;
    marks = mark ? marks + 1 : 0;
    // utf8proc sorts a run of marks by insertion, which is quadratic in the run.
    if (!scalar || marks > kMaxCombiningRun) {
      TRY(append_nfc(text.substr(begin, at - begin), out));
      begin = at;
      marks = 0;
    }
    at += step.length;
    if (!scalar) {
      out.append(text.substr(begin, step.length));
      begin = at;
    }
  }
  TRY(append_nfc(text.substr(begin), out));
  return out;
}

}  // namespace isthmus
