// SPDX-License-Identifier: Apache-2.0
// Whatever a peer sends after the handshake: frames, their messages, and rows against a hybrid layout.
#include <algorithm>
#include <cstdint>

#include "base/hash.h"
#include "handoff/frame.h"
#include "handoff/open_message.h"
#include "handoff/rows_payload.h"

namespace {

using namespace isthmus;
using namespace isthmus::handoff;

class InputStream final : public ByteStream {
 public:
  explicit InputStream(std::span<const std::byte> bytes) : bytes_(bytes) {}
  Status read_exact(std::span<std::byte> out, const IoLimits&) override {
    if (out.size() > bytes_.size()) return {Code::kUnavailable, "end of input"};
    std::copy_n(bytes_.begin(), out.size(), out.begin());
    bytes_ = bytes_.subspan(out.size());
    return {};
  }
  Status write_all(std::span<const ConstBytes>, const IoLimits&) override { return {}; }
  void close() override {}

 private:
  std::span<const std::byte> bytes_;
};

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  InputStream stream(input);
  for (uint32_t sequence = 0; sequence < 8; ++sequence) {
    const auto frame = read_frame(stream, sequence, 1 << 20, {});
    if (!frame.ok()) break;
    take(*frame);
  }
  // The checksum stops most inputs above; here the same bytes are a message and its payload.
  const size_t half = size / 2;
  const auto json = parse_json(as_text(input.first(half)), "fuzz");
  if (json.ok() && json->is_object()) {
    take(Frame{FrameType::kRows, 0, *json,
               Bytes(input.begin() + static_cast<std::ptrdiff_t>(half), input.end()), 0});
  }
  return 0;
}
