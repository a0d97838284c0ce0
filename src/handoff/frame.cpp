// SPDX-License-Identifier: Apache-2.0
#include "handoff/frame.h"

#include <cstring>

#include "base/hash.h"

namespace isthmus::handoff {
namespace {

Status corrupt(const std::string& what) {
  return {Code::kCorrupt, "handoff frame: " + what};
}

}  // namespace

std::string_view frame_type_name(FrameType type) {
  switch (type) {
    case FrameType::kOpen:
      return "OPEN";
    case FrameType::kRows:
      return "ROWS";
    case FrameType::kSeal:
      return "SEAL";
    case FrameType::kAck:
      return "ACK";
    case FrameType::kAbort:
      return "ABORT";
    case FrameType::kPing:
      return "PING";
  }
  return "?";
}

FrameHead frame_head(FrameType type, uint32_t sequence, const Json& json,
                     std::span<const ConstBytes> payload) {
  const std::string text = dump_json(json);
  size_t payload_bytes = 0;
  for (const ConstBytes& part : payload) payload_bytes += part.size();
  ISTHMUS_CHECK(text.size() <= kMaxJsonBytes && payload_bytes <= kMaxPayloadBytes);

  ByteWriter w;
  w.write(kMagic);
  w.write(kVersion);
  w.write(static_cast<uint8_t>(type));
  w.write(uint16_t{0});
  w.write(static_cast<uint32_t>(text.size()));
  w.write(static_cast<uint32_t>(payload_bytes));
  w.write(sequence);
  w.write(uint32_t{0});
  std::vector<ConstBytes> parts = {w.bytes(), as_byte_span(text)};
  parts.insert(parts.end(), payload.begin(), payload.end());
  FrameHead head;
  head.checksum = xxh3_64_of_parts(parts);
  w.write(head.checksum);
  w.append(text);
  head.bytes = w.take();
  return head;
}

Result<uint64_t> write_frame(ByteStream& stream, FrameType type, uint32_t sequence, const FrameBody& body,
                             const IoLimits& limits) {
  const FrameHead head = frame_head(type, sequence, body.json, body.payload);
  std::vector<ConstBytes> parts = {head.bytes};
  parts.insert(parts.end(), body.payload.begin(), body.payload.end());
  TRY(stream.write_all(parts, limits));
  return head.checksum;
}

Result<FrameSizes> parse_header(std::span<const std::byte> header, uint32_t max_payload) {
  ByteReader r(header);
  const auto magic = r.read<uint32_t>();
  const auto version = r.read<uint8_t>();
  const auto type = r.read<uint8_t>();
  const auto zero16 = r.read<uint16_t>();
  FrameSizes s{};
  s.json_bytes = r.read<uint32_t>();
  s.payload_bytes = r.read<uint32_t>();
  s.sequence = r.read<uint32_t>();
  const auto zero32 = r.read<uint32_t>();
  s.checksum = r.read<uint64_t>();
  if (!r.ok()) return corrupt("header of " + std::to_string(header.size()) + " bytes, expected 32");
  if (magic != kMagic) return corrupt("bad magic");
  if (version != kVersion) {
    return Status(Code::kUnsupported,
                  "handoff frame: version " + std::to_string(version) + ", this side speaks 1");
  }
  if (type < static_cast<uint8_t>(FrameType::kOpen) || type > static_cast<uint8_t>(FrameType::kPing)) {
    return corrupt("unknown type " + std::to_string(type));
  }
  if (zero16 != 0 || zero32 != 0) return corrupt("reserved bytes are not zero");
  if (s.json_bytes > kMaxJsonBytes)
    return corrupt("JSON of " + std::to_string(s.json_bytes) + " bytes, limit 65536");
  if (s.payload_bytes > max_payload) {
    return corrupt("payload of " + std::to_string(s.payload_bytes) + " bytes, limit here " +
                   std::to_string(max_payload));
  }
  s.type = static_cast<FrameType>(type);
  return s;
}

Result<Frame> read_frame(ByteStream& stream, uint32_t expected_sequence, uint32_t max_payload,
                         const IoLimits& limits) {
  std::array<std::byte, kHeaderBytes> header;
  TRY(stream.read_exact(header, limits));
  ASSIGN_OR_RETURN(const FrameSizes sizes, parse_header(header, max_payload));
  Bytes json(sizes.json_bytes);
  Frame frame;
  frame.payload.resize(sizes.payload_bytes);
  TRY(stream.read_exact(json, limits));
  TRY(stream.read_exact(frame.payload, limits));
  const ConstBytes parts[] = {std::span(header).first(kChecksumOffset), json, frame.payload};
  if (const uint64_t found = xxh3_64_of_parts(parts); found != sizes.checksum) {
    return corrupt("checksum of " + std::string(frame_type_name(sizes.type)) + ": expected " +
                   hex64(sizes.checksum) + ", got " + hex64(found));
  }
  if (sizes.sequence != expected_sequence) {
    return corrupt("sequence " + std::to_string(sizes.sequence) + ", expected " +
                   std::to_string(expected_sequence));
  }
  ASSIGN_OR_RETURN(frame.json, parse_json(as_text(json), "handoff frame"));
  if (!frame.json.is_object()) return corrupt("JSON is not an object");
  frame.type = sizes.type;
  frame.sequence = sizes.sequence;
  frame.checksum = sizes.checksum;
  return frame;
}

}  // namespace isthmus::handoff
