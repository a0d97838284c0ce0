// SPDX-License-Identifier: Apache-2.0
// Two lookups that meet one bad file: the slower one must not throw away what was written in its place.
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;
namespace stdfs = std::filesystem;

void flip_last_byte(const stdfs::path& path) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(-1, std::ios::end);
  const char c = static_cast<char>(f.get() ^ 1);
  f.seekp(-1, std::ios::end);
  f.put(c);
}

struct Row {
  const char* what;
  std::function<void(const stdfs::path& block)> damage;
  uint64_t ram_bytes;  // 0: the block is only on disk again when the slow lookup goes on
  uint64_t quarantined;
};

class BlockStoreReread : public ::testing::TestWithParam<Row> {};

TEST_P(BlockStoreReread, TheSlowLookupSparesTheFileWrittenSince) {
  const Ids ids = count_up(8);
  const TempDir dir;
  {
    BlockStoreOptions o = options(dir.path());
    ASSERT_TRUE(put_prompt(*open_store(o), ids, kNative).ok());
  }
  FaultyFs fs;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = GetParam().ram_bytes;
  o.fs = &fs;
  {
    const auto store = open_store(o);
    const BlockKey key =
        block_key(block_key(root_key(identity()), kNative, count_up(4)), kNative, count_up(4, 4));
    const stdfs::path block = file_of(dir.path(), key);
    ASSERT_TRUE(stdfs::exists(block));
    GetParam().damage(block);
    int reads = 0;
    const std::thread::id slow = std::this_thread::get_id();
    fs.at = [&](std::string_view at) {
      if (std::this_thread::get_id() != slow || at != "was read" || ++reads != 2) return Status();
      // The second block was just read, damaged. Before the slow lookup acts on it, a fast one has done so,
      // and the block was put again and written.
      EXPECT_EQ(tokens_of(*store, ids), 4);
      EXPECT_TRUE(put_prompt(*store, ids, kNative).ok());
      store->flush();
      return Status();
    };
    EXPECT_EQ(tokens_of(*store, ids), 8) << "the slow lookup has the good block, too";
    EXPECT_GE(reads, 3);
    EXPECT_EQ(store->stats().quarantined, GetParam().quarantined);
    EXPECT_EQ(store->stats().disk_blocks, 2u);
    EXPECT_TRUE(stdfs::exists(block));
    fs.at = [](std::string_view) { return Status(); };  // it refers to what ends here
  }
  EXPECT_EQ(tokens_of(*open_store(o), ids), 8);
}

INSTANTIATE_TEST_SUITE_P(Damage, BlockStoreReread,
                         ::testing::Values(Row{"damaged", flip_last_byte, 0, 1},
                                           Row{"damaged, in memory since", flip_last_byte, 1 << 20, 1},
                                           Row{"removed", [](const stdfs::path& p) { stdfs::remove(p); }, 0,
                                               0}));

}  // namespace
}  // namespace isthmus
