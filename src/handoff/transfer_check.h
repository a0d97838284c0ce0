// SPDX-License-Identifier: Apache-2.0
// What a transfer's frames must be, one after the other: OPEN as expected, whole blocks in ascending order,
// and a SEAL that agrees with all of it. Puts blocks together. The receiver asks it for every frame, and so
// does the reader of recordings. No I/O; one thread.
#pragma once

#include <optional>

#include "base/bytes.h"
#include "flow/transfer.h"
#include "handoff/frame.h"

namespace isthmus::handoff {

class TransferCheck {
 public:
  explicit TransferCheck(const TransferSpec& spec) : spec_(spec), taken_to_(spec.first) {}

  // The first frame. Errors: kCorrupt (another type), kMismatch (names the field).
  Status open(const Frame& frame);

  struct Block {
    int64_t first = 0;
    int64_t last = 0;
    Bytes planes;
  };
  // A block when this frame completes one. Errors: kCorrupt (order, sizes), kInvalidArgument (non-finite
  // values).
  Result<std::optional<Block>> rows(const Frame& frame);
  void ping(const Frame& frame) { note(frame); }
  // kCorrupt unless rows, frames, bytes and digest are what came.
  Status seal(const Frame& frame);

  uint64_t next_block_bytes() const;  // of the block that comes next, or is being put together
  // Most payload bytes that the next frame may have: no ROWS of this transfer is larger.
  uint32_t max_payload() const;

  int64_t taken_to() const { return taken_to_; }  // end of the rows of whole blocks
  uint64_t plane_bytes() const { return plane_bytes_; }
  uint32_t frames() const { return frames_; }  // before SEAL
  std::string digest() const;                  // over their checksums, as SEAL repeats it

 private:
  void note(const Frame& frame);

  const TransferSpec spec_;
  int64_t taken_to_ = 0;
  size_t planes_seen_ = 0;  // of the block being put together
  Bytes block_;
  uint64_t plane_bytes_ = 0;
  uint32_t frames_ = 0;
  ByteWriter checksums_;
};

}  // namespace isthmus::handoff
