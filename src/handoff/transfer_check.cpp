// SPDX-License-Identifier: Apache-2.0
#include "handoff/transfer_check.h"

#include <algorithm>

#include "base/hash.h"
#include "handoff/open_message.h"
#include "handoff/rows_payload.h"

namespace isthmus::handoff {
namespace {

// Blocks end at multiples of P; the last one may be shorter.
int64_t next_boundary(const TransferSpec& spec, int64_t at) {
  const int64_t block = spec.layout.block_tokens;
  return std::min(at / block * block + block, spec.last);
}

std::string range_text(int64_t first, int64_t last, size_t plane) {
  return "[" + std::to_string(first) + ", " + std::to_string(last) + ") from plane " + std::to_string(plane);
}

std::string seal_text(int64_t last, int64_t frames, int64_t bytes, const std::string& digest) {
  return "rows to " + std::to_string(last) + " in " + std::to_string(frames) + " frames and " +
         std::to_string(bytes) + " bytes with digest " + digest;
}

}  // namespace

void TransferCheck::note(const Frame& frame) {
  ++frames_;
  checksums_.write(frame.checksum);
}

std::string TransferCheck::digest() const {
  return hex64(xxh3_64(checksums_.bytes()));
}

uint64_t TransferCheck::next_block_bytes() const {
  return spec_.layout.block_bytes(taken_to_, next_boundary(spec_, taken_to_));
}

uint32_t TransferCheck::max_payload() const {
  return static_cast<uint32_t>(
      std::min<uint64_t>(kMaxPayloadBytes, next_block_bytes() + payload_head_limit(spec_.layout)));
}

Status TransferCheck::open(const Frame& frame) {
  if (frame.type != FrameType::kOpen) {
    return {Code::kCorrupt, "handoff: " + std::string(frame_type_name(frame.type)) + " before OPEN"};
  }
  TRY(check_open(frame.json, spec_));
  note(frame);
  return {};
}

Result<std::optional<TransferCheck::Block>> TransferCheck::rows(const Frame& frame) {
  ASSIGN_OR_RETURN(const RowsMessage m, parse_rows(frame.json, spec_.layout));
  const int64_t boundary = next_boundary(spec_, taken_to_);
  if (m.first != taken_to_ || m.last != boundary || m.first_plane != planes_seen_) {
    return Status(Code::kCorrupt, "handoff: ROWS " + range_text(m.first, m.last, m.first_plane) +
                                      ", expected " + range_text(taken_to_, boundary, planes_seen_));
  }
  if (planes_seen_ == 0) block_.resize(spec_.layout.block_bytes(m.first, m.last));
  TRY(unpack_rows(spec_.layout, m, frame.payload, block_));
  note(frame);
  planes_seen_ += m.planes;
  if (planes_seen_ < spec_.layout.planes.size()) return std::optional<Block>();
  planes_seen_ = 0;
  plane_bytes_ += block_.size();
  taken_to_ = m.last;
  return std::optional(Block{m.first, m.last, std::exchange(block_, Bytes())});
}

Status TransferCheck::seal(const Frame& frame) {
  constexpr std::string_view kWhere = "handoff SEAL";
  ASSIGN_OR_RETURN(const int64_t last, get_int(frame.json, "last", kWhere));
  ASSIGN_OR_RETURN(const int64_t frames, get_int(frame.json, "frames", kWhere));
  ASSIGN_OR_RETURN(const int64_t bytes, get_int(frame.json, "bytes", kWhere));
  ASSIGN_OR_RETURN(const std::string theirs, get_string(frame.json, "digest", kWhere));
  const auto came = static_cast<int64_t>(plane_bytes_);
  if (last == taken_to_ && planes_seen_ == 0 && frames == frames_ && bytes == came && theirs == digest())
    return {};
  return {Code::kCorrupt, std::string(kWhere) + ": claims " +
                              seal_text(last, frames, bytes, theirs.substr(0, 16)) + ", received " +
                              seal_text(taken_to_, frames_, came, digest()) +
                              (planes_seen_ == 0 ? "" : " and a part of a block")};
}

}  // namespace isthmus::handoff
