// SPDX-License-Identifier: Apache-2.0
#include "net/sse.h"

#include <algorithm>

namespace isthmus {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

Status SseParser::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    if (after_cr_) {
      after_cr_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > max_event_bytes_) {
      return Status(Code::kResourceExhausted, "sse: a line of at most " + std::to_string(max_event_bytes_) +
                                                  " bytes expected, got more");
    }
    line_.append(piece);
    if (end == std::string_view::npos) return Status();
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    std::string line;
    line.swap(line_);
    TRY(take_line(line, sink));
  }
  return Status();
}

Status SseParser::take_line(std::string_view line, const Sink& sink) {
  if (at_start_ && line.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    line.remove_prefix(kByteOrderMark.size());
  at_start_ = false;
  if (line.empty()) {
    if (has_data_) sink(std::move(event_));
    event_ = SseItem();
    has_data_ = has_fields_ = false;
    return Status();
  }
  const size_t colon = line.find(':');
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (colon == 0) {
    sink(SseItem{SseItem::Kind::kComment, std::string(value), "", ""});
    return Status();
  }
  return take_field(line.substr(0, colon), value);
}

Status SseParser::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    if (event_.data.size() + value.size() + 1 > max_event_bytes_) {
      return Status(Code::kResourceExhausted, "sse: an event of at most " + std::to_string(max_event_bytes_) +
                                                  " bytes expected, got more");
    }
    if (has_data_) event_.data.push_back('\n');
    event_.data.append(value);
    has_data_ = true;
  } else if (name == "event") {
    event_.event = std::string(value);
  } else if (name == "id") {
    event_.id = std::string(value);
  } else {
    return Status();  // "retry" and unknown fields carry nothing for us
  }
  has_fields_ = true;
  return Status();
}

}  // namespace isthmus
