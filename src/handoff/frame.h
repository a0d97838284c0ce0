// SPDX-License-Identifier: Apache-2.0
// One frame of the handoff: building its bytes, and reading one from a stream with every length and the
// checksum verified before anything in it is believed. Values; one thread per stream direction.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "handoff/frame_format.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

std::string_view frame_type_name(FrameType type);

struct Frame {
  FrameType type = FrameType::kPing;
  uint32_t sequence = 0;
  Json json;
  Bytes payload;
  uint64_t checksum = 0;
};

// Header and JSON of a frame whose payload is `payload` (borrowed): write the result, then the payload parts.
struct FrameHead {
  Bytes bytes;  // 32 + JSON
  uint64_t checksum = 0;
};
FrameHead frame_head(FrameType type, uint32_t sequence, const Json& json,
                     std::span<const ConstBytes> payload);

// Sends one frame; its checksum.
struct FrameBody {
  const Json& json;
  std::span<const ConstBytes> payload;
};
Result<uint64_t> write_frame(ByteStream& stream, FrameType type, uint32_t sequence, const FrameBody& body,
                             const IoLimits& limits);

struct FrameSizes {
  FrameType type;
  uint32_t sequence;
  uint32_t json_bytes;
  uint32_t payload_bytes;
  uint64_t checksum;
};
// The fixed part. `max_payload` is what the receiver is prepared for now. Errors: kCorrupt, kUnsupported
// (version).
Result<FrameSizes> parse_header(std::span<const std::byte> header, uint32_t max_payload);

// Errors: those of parse_header, kCorrupt (checksum, JSON, sequence), and the stream's. `expected_sequence`
// counts frames of this direction from 0.
Result<Frame> read_frame(ByteStream& stream, uint32_t expected_sequence, uint32_t max_payload,
                         const IoLimits& limits);

}  // namespace isthmus::handoff
