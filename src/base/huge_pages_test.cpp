// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.h"

namespace isthmus {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// Sizes on both sides of the arena's limit, more than one arena part in all; freed in another order.
TEST(HugePages, BlocksAreAlignedWritableAndApart) {
  const size_t sizes[] = {0,           1,        63,       64,       65,       4096,     3 * kMiB,
                          7 * kMiB,    7 * kMiB, 8 * kMiB, 7 * kMiB, 7 * kMiB, 7 * kMiB, 33 * kMiB + 1,
                          8 * kMiB - 1};
  std::vector<unsigned char*> blocks;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    auto* const block = static_cast<unsigned char*>(allocate_huge(sizes[i]));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0U);
    std::memset(block, static_cast<int>(i + 1), sizes[i]);
    blocks.push_back(block);
  }
  for (size_t i = 0; i < std::size(sizes); ++i) {
    if (sizes[i] == 0) continue;
    EXPECT_EQ(blocks[i][0], i + 1);
    EXPECT_EQ(blocks[i][sizes[i] - 1], i + 1);
  }
  for (size_t i = 0; i < std::size(sizes); i += 2) free_huge(blocks[i], sizes[i]);
  for (size_t i = 1; i < std::size(sizes); i += 2) free_huge(blocks[i], sizes[i]);
}

TEST(HugePages, WhatTheSystemDoesNotHaveIsNull) {
  for (const size_t bytes : {~size_t{0}, ~size_t{0} - 4 * kMiB, size_t{1} << 60}) {
    EXPECT_EQ(allocate_huge(bytes), nullptr) << bytes;
  }
  AlignedBuffer<float> buffer(16);
  EXPECT_FALSE(buffer.try_resize(size_t{1} << 58));
  EXPECT_EQ(buffer.size(), 0U);
}

TEST(HugePages, BuffersAreZeroAndMove) {
  for (int again = 0; again < 2; ++again) {
    HugeBuffer bytes;
    ASSERT_TRUE(bytes.try_resize(100'000));
    EXPECT_EQ(bytes.size(), 100'000U);
    EXPECT_TRUE(std::all_of(bytes.data(), bytes.data() + bytes.size(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::memset(bytes.data(), 0xff, bytes.size());
    HugeBuffer moved = std::move(bytes);
    EXPECT_EQ(moved.data()[99'999], std::byte{0xff});
    EXPECT_EQ(bytes.size(), 0U);
    EXPECT_EQ(bytes.data(), nullptr);
    EXPECT_FALSE(moved.try_resize(size_t{1} << 60));
    EXPECT_EQ(moved.size(), 0U);
  }
  AlignedBuffer<uint64_t> large(4 * kMiB);
  large.data()[4 * kMiB - 1] = 7;
  AlignedBuffer<uint64_t> moved = std::move(large);
  EXPECT_EQ(moved.data()[4 * kMiB - 1], 7U);
  EXPECT_EQ(moved.size(), 4 * kMiB);
  moved = AlignedBuffer<uint64_t>(3);
  EXPECT_EQ(moved.size(), 3U);
}

}  // namespace
}  // namespace isthmus
