// SPDX-License-Identifier: Apache-2.0
// The items do not depend on how the bytes were cut: the first byte of the input chooses the piece size.
#include <algorithm>
#include <cstdint>

#include "net/sse.h"

namespace {

std::string all_items(std::string_view text, size_t piece) {
  isthmus::SseParser parser(1 << 20);
  std::string out;
  for (size_t i = 0; i < text.size(); i += piece) {
    const isthmus::Status fed = parser.feed(text.substr(i, piece), [&](isthmus::SseItem&& item) {
      out += item.kind == isthmus::SseItem::Kind::kEvent ? 'e' : 'c';
      out += item.event + '\0' + item.id + '\0' + item.data + '\0';
    });
    if (!fed.ok()) break;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  ISTHMUS_CHECK(all_items(text, std::max<size_t>(data[0], 1)) == all_items(text, text.size()));
  return 0;
}
