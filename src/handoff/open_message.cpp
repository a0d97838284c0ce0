// SPDX-License-Identifier: Apache-2.0
#include "handoff/open_message.h"

#include <algorithm>

#include "flow/identity.h"

namespace isthmus::handoff {

uint64_t total_plane_bytes(const TransferSpec& spec) {
  uint64_t total = 0;
  const int64_t block = spec.layout.block_tokens;
  for (int64_t a = spec.first; a < spec.last; a += block)
    total += spec.layout.block_bytes(a, std::min(a + block, spec.last));
  return total;
}

Json open_json(const TransferSpec& spec) {
  return {{"transfer", spec.id},
          {"tokens", spec.prompt_tokens},
          {"first", spec.first},
          {"last", spec.last},
          {"ids", spec.ids.hex()},
          {"identity", spec.identity.hex()},
          {"mode", source_kind_name(spec.source.kind)},
          {"producer", spec.source.producer.hex()},
          {"plane_bytes", total_plane_bytes(spec)},
          {"layout", spec.layout.to_json()}};
}

Status check_open(const Json& opened, const TransferSpec& expected) {
  const std::string difference = first_difference(open_json(expected), opened);
  if (difference.empty()) return {};
  return {Code::kMismatch, "handoff OPEN: " + difference};
}

Json abort_json(const Status& why) {
  return {{"code", code_name(why.code())}, {"message", why.message().substr(0, 500)}};
}

Status abort_status(const Json& j) {
  const auto code = find_string(j, "code", "handoff ABORT");
  const auto message = find_string(j, "message", "handoff ABORT");
  const std::string text = message.ok() && message->has_value() ? **message : "no reason given";
  for (const Code c : {Code::kInvalidArgument, Code::kCorrupt, Code::kUnsupported, Code::kMismatch,
                       Code::kResourceExhausted, Code::kDeadlineExceeded, Code::kCancelled}) {
    if (code.ok() && code->has_value() && **code == code_name(c)) return {c, "peer: " + text};
  }
  return {Code::kUnavailable, "peer: " + text};
}

}  // namespace isthmus::handoff
