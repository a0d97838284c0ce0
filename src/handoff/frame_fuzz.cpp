// SPDX-License-Identifier: Apache-2.0
// Whatever a peer sends after the handshake, and whatever a recording holds: frames, their messages, rows
// against a hybrid layout, whole transfers.
#include <cstdint>
#include <cstring>

#include "base/hash.h"
#include "handoff/frame.h"
#include "handoff/open_message.h"
#include "handoff/recording.h"
#include "handoff/rows_payload.h"
#include "net/span_stream.h"

namespace {

using namespace isthmus;
using namespace isthmus::handoff;

const PlaneLayout& layout() {
  static const PlaneLayout l = {8,
                                {{"L0.window", 0, PlaneKind::kWindow, 5, DType::kF32, 3},
                                 {"L1.k", 1, PlaneKind::kTokenRows, 1, DType::kBF16, 4},
                                 {"L1.pool", 1, PlaneKind::kPooled, 4, DType::kF16, 6}}};
  return l;
}

void take(const Frame& frame) {
  (void)check_open(frame.json, TransferSpec{.layout = layout()});
  (void)abort_status(frame.json);
  if (frame.json.contains("layout")) (void)PlaneLayout::from_json(frame.json["layout"]);
  const auto rows = parse_rows(frame.json, layout());
  if (!rows.ok()) return;
  Bytes block(layout().block_bytes(rows->first, rows->last));
  (void)unpack_rows(layout(), *rows, frame.payload, block);
}

// The input with every frame's checksum made to fit, so that what is behind the checksums is reached.
Bytes mended(std::span<const std::byte> input) {
  Bytes bytes(input.begin(), input.end());
  for (size_t at = 0; at + kHeaderBytes <= bytes.size();) {
    uint32_t sizes[2];
    std::memcpy(sizes, bytes.data() + at + 8, sizeof sizes);
    const uint64_t end = at + kHeaderBytes + uint64_t{sizes[0]} + sizes[1];
    if (end > bytes.size()) break;
    const ConstBytes parts[] = {std::span(bytes).subspan(at, kChecksumOffset),
                                std::span(bytes).subspan(at + kHeaderBytes, end - at - kHeaderBytes)};
    const uint64_t checksum = xxh3_64_of_parts(parts);
    std::memcpy(bytes.data() + at + kChecksumOffset, &checksum, sizeof checksum);
    at = end;
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const Bytes frames = mended(input);
  (void)read_recording(input);
  (void)read_recording(frames);
  SpanStream stream(frames);
  for (uint32_t sequence = 0; sequence < 8; ++sequence) {
    const auto frame = read_frame(stream, sequence, 1 << 20, {});
    if (!frame.ok()) break;
    take(*frame);
  }
  // The same bytes as one message and its payload.
  const size_t half = size / 2;
  const auto json = parse_json(as_text(input.first(half)), "fuzz");
  if (json.ok() && json->is_object()) {
    take(Frame{FrameType::kRows, 0, *json,
               Bytes(input.begin() + static_cast<std::ptrdiff_t>(half), input.end()), 0});
  }
  return 0;
}
