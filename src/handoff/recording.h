// SPDX-License-Identifier: Apache-2.0
// Reads a recording (recorder.h): every frame, checked as the receiver would, up to the first damage. The
// transfer is what OPEN says, as nobody expected it. Pure; any thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "flow/transfer.h"
#include "handoff/frame.h"

namespace isthmus::handoff {

struct RecordedFrame {
  uint64_t offset = 0;  // in the file
  FrameType type = FrameType::kPing;
  Json json;
  uint64_t payload_bytes = 0;
  uint64_t checksum = 0;
};

struct Recording {
  std::optional<TransferSpec> opened;  // absent: damaged before that
  std::vector<RecordedFrame> frames;   // whole and correct ones
  int64_t taken_to = 0;                // end of the rows of whole blocks
  uint64_t plane_bytes = 0;
  std::string digest;  // over the checksums of all frames before SEAL or ABORT
  bool sealed = false;
  Status aborted;  // the sender's reason; ok when there is no ABORT

  Status damage;  // "…: expected …, got …"; ok: none
  uint64_t damage_offset = 0;
};

Recording read_recording(std::span<const std::byte> file);

}  // namespace isthmus::handoff
