// SPDX-License-Identifier: Apache-2.0
#include "handoff/open_message.h"

#include <algorithm>

#include "flow/identity.h"

namespace isthmus::handoff {
namespace {

constexpr std::string_view kOpen = "handoff OPEN";
// Of a transfer whose sizes somebody else chose: planes of all blocks together.
constexpr int64_t kMaxPlaneBlocks = int64_t{1} << 24;

Result<Digest> digest_field(const Json& j, std::string_view name) {
  ASSIGN_OR_RETURN(const std::string hex, get_string(j, name, kOpen));
  const auto digest = Digest::from_hex(hex);
  if (!digest) {
    return Status(Code::kInvalidArgument, std::string(kOpen) + ": field '" + std::string(name) +
                                              "': expected 64 hex digits, got " + hex.substr(0, 65));
  }
  return *digest;
}

}  // namespace

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

Result<TransferSpec> parse_open(const Json& opened) {
  TransferSpec t;
  ASSIGN_OR_RETURN(t.id, get_string(opened, "transfer", kOpen));
  ASSIGN_OR_RETURN(t.prompt_tokens, get_int(opened, "tokens", kOpen));
  ASSIGN_OR_RETURN(t.first, get_int(opened, "first", kOpen));
  ASSIGN_OR_RETURN(t.last, get_int(opened, "last", kOpen));
  ASSIGN_OR_RETURN(t.ids, digest_field(opened, "ids"));
  ASSIGN_OR_RETURN(t.identity, digest_field(opened, "identity"));
  ASSIGN_OR_RETURN(t.source.producer, digest_field(opened, "producer"));
  ASSIGN_OR_RETURN(const std::string mode, get_string(opened, "mode", kOpen));
  ASSIGN_OR_RETURN(t.source.kind, parse_source_kind(mode));
  ASSIGN_OR_RETURN(t.layout, PlaneLayout::from_json(opened.value("layout", Json())));
  const int64_t block = t.layout.block_tokens;
  const auto planes = static_cast<int64_t>(t.layout.planes.size());
  if (t.first < 0 || t.first % block != 0 || t.last < t.first || t.last >= t.prompt_tokens ||
      (t.last - t.first) / block >= kMaxPlaneBlocks / planes) {
    return Status(Code::kInvalidArgument, std::string(kOpen) + ": rows [" + std::to_string(t.first) + ", " +
                                              std::to_string(t.last) + ") of " +
                                              std::to_string(t.prompt_tokens) + " tokens");
  }
  TRY(check_open(opened, t));
  return t;
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
