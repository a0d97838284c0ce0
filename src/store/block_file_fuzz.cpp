// SPDX-License-Identifier: Apache-2.0
// A block that is accepted encodes to the bytes it was read from. A second pass makes the header's checksum
// right, so that the checks behind it are reached.
#include <cstdint>
#include <cstring>

#include "store/block_file.h"

namespace {

using namespace isthmus;

void check(std::span<const std::byte> file) {
  static const BlockContext context =
      BlockContext::of(sha256("golden identity"), native_layout(1, 2, 4, DType::kBF16));
  const auto header = parse_block_header(file, "fuzz");
  if (header.ok()) ISTHMUS_CHECK(header->header_bytes <= file.size());
  const auto block = parse_block(file, context, "fuzz");
  if (!block.ok()) return;
  Bytes again = encode_block_header(**block, context);
  again.insert(again.end(), (*block)->planes.begin(), (*block)->planes.end());
  ISTHMUS_CHECK(again.size() == file.size() && std::memcmp(again.data(), file.data(), file.size()) == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  check(bytes);
  uint32_t header_bytes = 0;
  if (size < 16) return 0;
  std::memcpy(&header_bytes, data + 12, sizeof(header_bytes));
  if (header_bytes < 16 || header_bytes > size) return 0;
  Bytes repaired(bytes.begin(), bytes.end());
  const uint64_t checksum = xxh3_64(bytes.first(header_bytes - 8));
  std::memcpy(repaired.data() + header_bytes - 8, &checksum, sizeof(checksum));
  check(repaired);
  return 0;
}
