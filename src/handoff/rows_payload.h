// SPDX-License-Identifier: Apache-2.0
// ROWS: a block's planes as one or more safetensors payloads of at most 64 MiB, and back into the bytes of a
// block. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "flow/plane.h"
#include "net/byte_stream.h"

namespace isthmus::handoff {

// The planes [first_plane, first_plane + planes) of tokens [first, last).
struct RowsMessage {
  int64_t first = 0;
  int64_t last = 0;
  size_t first_plane = 0;
  size_t planes = 0;
};
Json rows_json(const RowsMessage& m);
Result<RowsMessage> parse_rows(const Json& j, const PlaneLayout& layout);

// How to cut a block into frames: ascending planes, each frame under `max_payload` (with room for its
// header).
std::vector<RowsMessage> split_block(const PlaneLayout& layout, int64_t first, int64_t last,
                                     uint32_t max_payload);

// Most bytes that a payload's safetensors head takes.
size_t payload_head_limit(const PlaneLayout& layout);
// kUnsupported when a plane of a whole block does not fit into one payload.
Status check_fits_frames(const PlaneLayout& layout, uint32_t max_payload);

// The safetensors buffer of one message as parts to write: the head, then spans into `block` (all planes of
// the token range).
struct RowsPayload {
  Bytes head;
  std::vector<ConstBytes> planes;  // in the buffer's order
};
Result<RowsPayload> rows_payload(const PlaneLayout& layout, const RowsMessage& m,
                                 std::span<const std::byte> block);

// Checks names, types, shapes and finiteness of a received payload, and copies its planes to their places in
// `block` (layout.block_bytes(first, last) bytes). Errors: kCorrupt, kInvalidArgument (non-finite values).
Status unpack_rows(const PlaneLayout& layout, const RowsMessage& m, std::span<const std::byte> payload,
                   std::span<std::byte> block);

// True when no value is NaN or infinite. Integer types always are.
bool all_finite(DType dtype, std::span<const std::byte> values);

}  // namespace isthmus::handoff
