// SPDX-License-Identifier: Apache-2.0
#include "capture/block_assembler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "capture/recording_sink.h"

namespace isthmus {
namespace {

constexpr int kLayers = 2;
constexpr int64_t kValues = 4;
constexpr int kBlock = 16;

PlaneLayout small_layout() {
  return native_layout(kLayers, kValues, kBlock, DType::kF32);
}

// Row `position` of K is filled with its number, that of V with the negative.
void add_rows(BlockAssembler& a, int layer, int64_t first, int64_t n) {
  std::vector<float> k(static_cast<size_t>(n * kValues)), v(k.size());
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = static_cast<float>(first + static_cast<int64_t>(i) / kValues + 100'000 * layer);
    v[i] = -k[i];
  }
  a.add(layer, first, n, k.data(), v.data());
}

Status add_chunk(BlockAssembler& a, int64_t first, int64_t n) {
  for (int layer = 0; layer < kLayers; ++layer) add_rows(a, layer, first, n);
  return a.chunk_done(first + n);
}

BlockAssembler make(int64_t first, int64_t last, RowSink& sink) {
  auto a = BlockAssembler::create(small_layout(), first, last, sink);
  EXPECT_TRUE(a.ok()) << a.status().to_string();
  return a.take();
}

float value_at(const RecordingSink::Block& b, size_t plane, int64_t token) {
  const int64_t row = static_cast<int64_t>(plane) * (b.last - b.first) + token - b.first;
  float v = 0;
  std::memcpy(&v, b.planes.data() + static_cast<size_t>(row * kValues) * sizeof(float), sizeof v);
  return v;
}

TEST(BlockAssembler, RowsLieInLayoutOrder) {
  RecordingSink sink;
  BlockAssembler a = make(0, 40, sink);
  ASSERT_TRUE(add_chunk(a, 0, 10).ok());
  EXPECT_TRUE(sink.blocks.empty());
  ASSERT_TRUE(add_chunk(a, 10, 30).ok());
  ASSERT_EQ(sink.blocks.size(), 2u);  // the tail waits
  ASSERT_TRUE(a.seal().ok());
  ASSERT_EQ(sink.blocks.size(), 3u);
  EXPECT_EQ(sink.sealed_at, 40);
  EXPECT_EQ(a.shipped_tokens(), 40);
  for (const auto& b : sink.blocks) {
    EXPECT_EQ(b.planes.size(), small_layout().block_bytes(b.first, b.last));
    for (int64_t t = b.first; t < b.last; ++t) {
      EXPECT_EQ(value_at(b, 0, t), static_cast<float>(t));
      EXPECT_EQ(value_at(b, 3, t), static_cast<float>(-100'000 - t));
    }
  }
}

TEST(BlockAssembler, IgnoresRowsOutsideTheTransfer) {
  RecordingSink sink;
  BlockAssembler a = make(16, 33, sink);
  ASSERT_TRUE(add_chunk(a, 0, 20).ok());
  ASSERT_TRUE(add_chunk(a, 20, 30).ok());
  ASSERT_TRUE(a.seal().ok());
  ASSERT_EQ(sink.blocks.size(), 2u);
  EXPECT_EQ(sink.blocks[0].first, 16);
  EXPECT_EQ(sink.blocks[1].last, 33);
  EXPECT_EQ(value_at(sink.blocks[0], 0, 16), 16.0f);
  EXPECT_EQ(a.shipped_tokens(), 17);
}

TEST(BlockAssembler, NothingToShipSealsAtTheStart) {
  RecordingSink sink;
  BlockAssembler a = make(32, 32, sink);
  ASSERT_TRUE(a.seal().ok());
  EXPECT_TRUE(sink.blocks.empty());
  EXPECT_EQ(sink.sealed_at, 32);
}

TEST(BlockAssembler, NeverClaimsWhatItDidNotGet) {
  struct Row {
    const char* name;
    void (*deliver)(BlockAssembler&);
    const char* message;
  };
  const Row rows[] = {
      {"layer missing", [](BlockAssembler& a) { add_rows(a, 0, 0, 32); },
       "layer 1: expected rows up to 32, got them up to 0"},
      {"gap",
       [](BlockAssembler& a) {
         add_rows(a, 0, 0, 8);
         add_rows(a, 0, 9, 23);
       },
       "layer 0: expected row 8, got 9"},
      {"repeated",
       [](BlockAssembler& a) {
         add_rows(a, 1, 0, 8);
         add_rows(a, 1, 7, 25);
       },
       "layer 1: expected row 8, got 7"},
      {"late start", [](BlockAssembler& a) { add_rows(a, 0, 4, 28); }, "layer 0: expected row 0, got 4"},
      {"short",
       [](BlockAssembler& a) {
         add_rows(a, 0, 0, 32);
         add_rows(a, 1, 0, 31);
       },
       "layer 1: expected rows up to 32, got them up to 31"},
      {"unknown layer", [](BlockAssembler& a) { add_rows(a, 2, 0, 32); }, "expected layers 0 to 1, got 2"},
  };
  for (const Row& r : rows) {
    RecordingSink sink;
    BlockAssembler a = make(0, 40, sink);
    r.deliver(a);
    const Status s = a.chunk_done(32);
    EXPECT_EQ(s.code(), Code::kInternal) << r.name;
    EXPECT_NE(s.message().find(r.message), std::string::npos) << r.name << ": " << s.message();
    EXPECT_FALSE(a.seal().ok()) << r.name;
    EXPECT_TRUE(sink.blocks.empty() && sink.sealed_at == -1) << r.name;
  }
}

TEST(BlockAssembler, EarlyEndSealsWholeBlocks) {
  RecordingSink sink;
  BlockAssembler a = make(0, 100, sink);
  ASSERT_TRUE(add_chunk(a, 0, 40).ok());
  ASSERT_TRUE(a.seal().ok());
  EXPECT_EQ(sink.sealed_at, 32);
  EXPECT_EQ(a.shipped_tokens(), 32);
  EXPECT_EQ(sink.blocks.size(), 2u);
}

TEST(BlockAssembler, PassesTheSinksErrorOn) {
  RecordingSink sink;
  BlockAssembler a = make(0, 100, sink);
  sink.refuse = Status(Code::kUnavailable, "the receiver is gone");
  EXPECT_EQ(add_chunk(a, 0, 20).code(), Code::kUnavailable);
  EXPECT_EQ(a.seal().code(), Code::kUnavailable);
  EXPECT_EQ(a.shipped_tokens(), 0);
}

size_t peak_bytes(int64_t tokens, int64_t chunk) {
  RecordingSink sink;
  BlockAssembler a = make(0, tokens, sink);
  size_t peak = 0;
  for (int64_t at = 0; at < tokens; at += chunk) {
    for (int layer = 0; layer < kLayers; ++layer) add_rows(a, layer, at, std::min(chunk, tokens - at));
    peak = std::max(peak, a.held_bytes());
    EXPECT_TRUE(a.chunk_done(std::min(at + chunk, tokens)).ok());
    sink.blocks.clear();
  }
  EXPECT_TRUE(a.seal().ok());
  return peak;
}

TEST(BlockAssembler, MemoryDoesNotGrowWithThePrompt) {
  const size_t row = small_layout().block_bytes(0, 1);
  for (const int64_t chunk : {1, 7, 16, 40}) {
    const size_t peak = peak_bytes(1'000, chunk);
    EXPECT_EQ(peak_bytes(20'000, chunk), peak) << chunk;
    EXPECT_LT(peak, static_cast<size_t>(chunk + 2 * kBlock) * row) << chunk;
  }
}

TEST(BlockAssembler, RefusesOtherLayoutsByName) {
  struct Row {
    const char* name;
    void (*change)(PlaneLayout&);
    const char* message;
  };
  const Row rows[] = {
      {"window", [](PlaneLayout& l) { l.planes[2].kind = PlaneKind::kWindow; }, "'L1.k' (window"},
      {"pooled", [](PlaneLayout& l) { l.planes[3].kind = PlaneKind::kPooled; }, "'L1.v' (pooled"},
      {"name", [](PlaneLayout& l) { l.planes[1].name = "L0.pool"; }, "'L0.pool'"},
      {"width", [](PlaneLayout& l) { l.planes[1].row_values = 8; }, "8 values"},
      {"odd", [](PlaneLayout& l) { l.planes.pop_back(); }, "expected plane 'L1.v'"},
      {"dtype", [](PlaneLayout& l) { l.planes[0].dtype = DType::kF16; }, "f16"},
      {"order", [](PlaneLayout& l) { std::swap(l.planes[0], l.planes[1]); }, "expected plane 'L0.k'"},
      {"empty", [](PlaneLayout& l) { l.planes.clear(); }, "no planes"},
  };
  RecordingSink sink;
  for (const Row& r : rows) {
    PlaneLayout layout = small_layout();
    r.change(layout);
    const auto a = BlockAssembler::create(layout, 0, 100, sink);
    EXPECT_EQ(a.status().code(), Code::kUnsupported) << r.name;
    EXPECT_NE(a.status().message().find(r.message), std::string::npos)
        << r.name << ": " << a.status().message();
  }
  for (const int64_t first : {-16, 8, 112}) {
    EXPECT_EQ(BlockAssembler::create(small_layout(), first, 100, sink).status().code(),
              Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace isthmus
