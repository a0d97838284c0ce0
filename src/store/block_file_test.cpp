// SPDX-License-Identifier: Apache-2.0
#include "store/block_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/fs.h"
#include "base/test_data.h"
#include "store/block_format.h"

namespace isthmus {
namespace {

BlockContext golden_context() {
  return BlockContext::of(sha256("golden identity"), native_layout(1, 2, 4, DType::kBF16));
}

Block golden_block() {
  Block b;
  b.parent = sha256("golden parent");
  b.first_token = 4;
  b.ids = {7, -1, 49151};
  b.source = {SourceKind::kProject, sha256("golden producer")};
  b.transfer_id = "t-1";
  for (int i = 0; i < 24; ++i) b.planes.push_back(static_cast<std::byte>(i));
  b.key = block_key(b.parent, b.source, b.ids);
  return b;
}

Bytes encode(const Block& block, const BlockContext& context) {
  Bytes file = encode_block_header(block, context);
  file.insert(file.end(), block.planes.begin(), block.planes.end());
  return file;
}

// Writes a value into a header and makes its checksum right again, as a hostile writer would.
template <typename T>
Bytes patched(size_t at, T value) {
  Bytes file = encode(golden_block(), golden_context());
  std::memcpy(file.data() + at, &value, sizeof(T));
  const size_t end = encode_block_header(golden_block(), golden_context()).size() - 8;
  const uint64_t checksum = xxh3_64(std::span(file).first(end));
  std::memcpy(file.data() + end, &checksum, sizeof(checksum));
  return file;
}

TEST(BlockFile, IsTheGoldenFile) {
  PosixFs fs;
  auto golden = fs.read_file(test_data("block/v1.isb"));
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  EXPECT_EQ(encode(golden_block(), golden_context()), *golden);
}

TEST(BlockFile, ReadsWhatItWrote) {
  const Block block = golden_block();
  auto read = parse_block(encode(block, golden_context()), golden_context(), "test");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ((*read)->key, block.key);
  EXPECT_EQ((*read)->parent, block.parent);
  EXPECT_EQ((*read)->first_token, 4);
  EXPECT_EQ((*read)->ids, block.ids);
  EXPECT_EQ((*read)->source, block.source);
  EXPECT_EQ((*read)->transfer_id, "t-1");
  EXPECT_EQ((*read)->planes, block.planes);
}

TEST(BlockFile, HeaderNamesThePlanes) {
  auto header = parse_block_header(encode(golden_block(), golden_context()), "test");
  ASSERT_TRUE(header.ok());
  auto json = parse_json(header->layout_json, "layout");
  ASSERT_TRUE(json.ok());
  auto layout = PlaneLayout::from_json(*json);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(*layout, golden_context().layout);
}

TEST(BlockFile, RefusesEveryFlippedBit) {
  const Bytes good = encode(golden_block(), golden_context());
  for (size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_FALSE(parse_block(bad, golden_context(), "test").ok()) << "byte " << i;
  }
}

TEST(BlockFile, RefusesEveryOtherLength) {
  Bytes file = encode(golden_block(), golden_context());
  for (size_t n = 0; n < file.size(); ++n) {
    EXPECT_FALSE(parse_block(std::span(file).first(n), golden_context(), "test").ok()) << n << " bytes";
  }
  file.push_back(std::byte{0});
  EXPECT_EQ(parse_block(file, golden_context(), "test").status().code(), Code::kCorrupt);
}

TEST(BlockFile, RefusesWhatContradictsItself) {
  using namespace block_format;
  const struct {
    const char* what;
    Bytes file;
    Code code;
  } rows[] = {
      {"version", patched<uint32_t>(kVersionAt, 2), Code::kUnsupported},
      {"header too small", patched<uint32_t>(kHeaderBytesAt, 64), Code::kCorrupt},
      {"header beyond the file", patched<uint32_t>(kHeaderBytesAt, 0xfffffff8), Code::kCorrupt},
      {"identity", patched(kIdentityAt, sha256("other")), Code::kMismatch},
      {"key", patched(kKeyAt, sha256("other")), Code::kCorrupt},
      {"parent", patched(kParentAt, sha256("other")), Code::kCorrupt},
      {"producer", patched(kProducerAt, sha256("other")), Code::kCorrupt},
      {"layout digest", patched(kLayoutDigestAt, sha256("other")), Code::kCorrupt},
      {"not a boundary", patched<int64_t>(kFirstTokenAt, 5), Code::kCorrupt},
      {"negative position", patched<int64_t>(kFirstTokenAt, -4), Code::kCorrupt},
      {"planes too large", patched<uint64_t>(kPlanesBytesAt, uint64_t{1} << 63), Code::kCorrupt},
      {"planes checksum", patched<uint64_t>(kPlanesChecksumAt, 1), Code::kCorrupt},
      {"no ids", patched<uint32_t>(kCountAt, 0), Code::kCorrupt},
      {"too many ids", patched<uint32_t>(kCountAt, 0xffffffff), Code::kCorrupt},
      {"one id more", patched<uint32_t>(kCountAt, 4), Code::kCorrupt},
      {"layout too large", patched<uint32_t>(kLayoutBytesAt, 0xffffffff), Code::kCorrupt},
      {"source kind", patched<uint8_t>(kSourceKindAt, 3), Code::kCorrupt},
      {"native with producer", patched<uint8_t>(kSourceKindAt, 0), Code::kCorrupt},
      {"transfer id length", patched<uint8_t>(kTransferIdBytesAt, 255), Code::kCorrupt},
      {"reserved", patched<uint8_t>(kReservedAt, 1), Code::kCorrupt},
      {"id", patched<int32_t>(kFixedBytes, 8), Code::kCorrupt},
      {"transfer id text", patched<uint8_t>(kFixedBytes + 12, '\n'), Code::kCorrupt},
  };
  for (const auto& row : rows) {
    auto read = parse_block(row.file, golden_context(), "test");
    ASSERT_FALSE(read.ok()) << row.what;
    EXPECT_EQ(read.status().code(), row.code) << row.what << ": " << read.status().to_string();
  }
}

TEST(BlockFile, RefusesAnotherLayout) {
  const Bytes file = encode(golden_block(), golden_context());
  const BlockContext other =
      BlockContext::of(golden_context().identity, native_layout(1, 2, 8, DType::kBF16));
  EXPECT_EQ(parse_block(file, other, "test").status().code(), Code::kMismatch);
}

TEST(BlockFile, RefusesASizeThatTheLayoutDoesNotGive) {
  Block block = golden_block();
  block.planes.pop_back();
  EXPECT_EQ(parse_block(encode(block, golden_context()), golden_context(), "test").status().code(),
            Code::kCorrupt);
}

}  // namespace
}  // namespace isthmus
