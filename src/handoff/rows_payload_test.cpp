// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "handoff/handoff_test_util.h"

namespace isthmus {
namespace {

using namespace handoff_test;

TEST(Rows, SplitsAtTheLimitAndJoinsAgain) {
  const PlaneLayout layout = hybrid_layout();
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{0, 8}, {8, 16}, {16, 19}, {0, 1}}) {
    const Bytes block = block_bytes(layout, a, b);
    for (const uint32_t limit : {520u, 700u, 1u << 20}) {
      Bytes joined(block.size());
      size_t planes = 0;
      for (const RowsMessage& m : split_block(layout, a, b, limit)) {
        EXPECT_EQ(m.first_plane, planes);
        planes += m.planes;
        const RowsPayload p = rows_payload(layout, m, block).take();
        ByteWriter w;
        w.append(std::span<const std::byte>(p.head));
        for (const ConstBytes& s : p.planes) w.append(s);
        EXPECT_LE(w.size(), limit);
        const Status unpacked = unpack_rows(layout, m, w.bytes(), joined);
        ASSERT_TRUE(unpacked.ok()) << unpacked.to_string();
      }
      EXPECT_EQ(planes, layout.planes.size());
      EXPECT_EQ(joined, block);
    }
  }
}

TEST(Rows, FiniteMeansFinite) {
  struct Row {
    DType type;
    std::vector<uint8_t> bytes;
    bool finite;
  } rows[] = {
      {DType::kBF16, {0x80, 0x7f}, false},
      {DType::kBF16, {0x7f, 0x7f}, true},
      {DType::kBF16, {0x80, 0xff}, false},
      {DType::kF16, {0x00, 0x7c}, false},
      {DType::kF16, {0xff, 0x7b}, true},
      {DType::kF32, {0, 0, 0x80, 0x7f}, false},
      {DType::kF32, {0xff, 0xff, 0x7f, 0x7f}, true},
      {DType::kF8E4M3, {0x7f}, false},
      {DType::kF8E4M3, {0x7e}, true},
      {DType::kI8, {0xff}, true},
  };
  for (const Row& r : rows) EXPECT_EQ(all_finite(r.type, std::as_bytes(std::span(r.bytes))), r.finite);
}

}  // namespace
}  // namespace isthmus
