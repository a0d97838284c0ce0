// SPDX-License-Identifier: Apache-2.0
// Client side of server-sent events: feed body bytes in any pieces, take whole events and comments out.
// One parser per response, one thread. Knows no event's meaning ("[DONE]" is data like any other).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace isthmus {

struct SseItem {
  enum class Kind { kEvent, kComment };
  Kind kind = Kind::kEvent;
  std::string
      data;  // event: its data lines joined by '\n'; comment: the text after ':' and one optional space
  std::string event;  // event name, empty if the stream names none
  std::string id;     // this event's id field, empty if it has none
};

class SseParser {
 public:
  using Sink = std::function<void(SseItem&&)>;

  // max_event_bytes bounds one line and one event's data.
  explicit SseParser(size_t max_event_bytes = 4 << 20) : max_event_bytes_(max_event_bytes) {}

  // Calls sink for every item that bytes complete, in stream order. kResourceExhausted once a line or an
  // event is too long; then the parser is spent. An event without its closing blank line is never delivered.
  Status feed(std::string_view bytes, const Sink& sink);

  // True when nothing is half read: the stream may end here without a loss.
  bool at_boundary() const { return line_.empty() && !has_fields_; }

 private:
  Status take_line(std::string_view line, const Sink& sink);
  Status take_field(std::string_view name, std::string_view value);

  size_t max_event_bytes_;
  std::string line_;  // the unfinished line
  SseItem event_;     // the unfinished event
  bool has_data_ = false;
  bool has_fields_ = false;
  bool after_cr_ = false;  // the last byte was CR: a following LF belongs to the same line end
  bool at_start_ = true;   // a byte order mark may still come
};

}  // namespace isthmus
