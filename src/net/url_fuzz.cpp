// SPDX-License-Identifier: Apache-2.0
// A URL that is accepted prints to a text that parses to the same URL.
#include <cstdint>

#include "net/url.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace isthmus;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Url> url = parse_url(text);
  if (url.ok()) {
    const Result<Url> again = parse_url(url->to_string());
    ISTHMUS_CHECK(again.ok() && again->to_string() == url->to_string());
    ISTHMUS_CHECK(again->host == url->host && again->port == url->port && again->target() == url->target());
  }
  [[maybe_unused]] const Result<std::string> decoded = percent_decode(text);
  return 0;
}
