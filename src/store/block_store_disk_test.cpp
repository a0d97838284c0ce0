// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>

#include "base/sync.h"
#include "store/block_file.h"
#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;
namespace stdfs = std::filesystem;

const Source kProjectA = bridged(SourceKind::kProject, "A");

void flip_byte(const stdfs::path& path, size_t at) {
  std::fstream f(path, std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(at));
  const char c = static_cast<char>(f.get() ^ 1);
  f.seekp(static_cast<std::streamoff>(at));
  f.put(c);
}

void write_text(const stdfs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(BlockStoreDisk, RestoresAfterARestart) {
  const TempDir dir;
  const Ids ids = count_up(10);
  {
    const auto store = open_store(options(dir.path()));
    ASSERT_TRUE(put_prompt(*store, Ids(ids.begin(), ids.begin() + 4), kNative).ok());
    ASSERT_TRUE(put_prompt(*store, ids, kProjectA).ok());
  }
  const auto store = open_store(options(dir.path()));
  EXPECT_EQ(store->cached_tokens(ids, 10, nullptr), 10);
  EXPECT_EQ(store->stats().disk_reads, 0u) << "cached_tokens reads no blocks";
  const CachedPrefix found = checked_prefix(*store, ids, 10);
  EXPECT_EQ(found.tokens, 10);
  EXPECT_EQ(found.source, kProjectA);
  EXPECT_EQ(found.blocks[1]->transfer_id, "transfer");
  EXPECT_EQ(tokens_of(*store, ids), 10);
  EXPECT_EQ(store->stats().disk_reads, 3u) << "the second time from memory";
}

TEST(BlockStoreDisk, TwoOwnersOfOneDirectory) {
  const TempDir dir;
  auto store = open_store(options(dir.path()));
  auto second = BlockStore::create(options(dir.path()), tiny_layout(), identity());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  store.reset();
  EXPECT_NE(open_store(options(dir.path())), nullptr);
}

TEST(BlockStoreDisk, ReconcilesTheIndexWithTheFiles) {
  const Ids ids = count_up(12);
  const Ids other = count_up(4, 50);
  const struct {
    const char* what;
    std::function<void(const stdfs::path& root, const stdfs::path& second_block)> damage;
    int64_t tokens;
    uint64_t quarantined;
  } table[] = {
      {"nothing", [](const auto&, const auto&) {}, 12, 0},
      {"index deleted",
       [](const auto& root, const auto&) {
         for (const char* name : {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm"}) {
           stdfs::remove(root / name);
         }
       },
       12, 0},
      {"index is no database",
       [](const auto& root, const auto&) { write_text(root / "index.sqlite", "not a database at all"); }, 12,
       0},
      {"index overwritten",
       [](const auto& root, const auto&) { write_text(root / "index.sqlite", std::string(20000, 'x')); }, 12,
       0},
      {"file removed", [](const auto&, const auto& block) { stdfs::remove(block); }, 4, 0},
      {"file cut", [](const auto&, const auto& block) { stdfs::resize_file(block, 100); }, 4, 1},
      {"file emptied", [](const auto&, const auto& block) { stdfs::resize_file(block, 0); }, 4, 1},
      {"file grown", [](const auto&, const auto& block) { stdfs::resize_file(block, 10000); }, 4, 1},
      {"file of another block",
       [](const auto&, const auto& block) {
         stdfs::rename(block, block.parent_path() / (std::string(64, '0') + ".isb"));
       },
       4, 1},
      {"half a write", [](const auto&, const auto& block) { write_text(block.string() + ".tmp", "half"); },
       12, 0},
      {"unknown files",
       [](const auto& root, const auto& block) {
         write_text(block.parent_path() / "notes.txt", "mine");
         write_text(root / "notes.isb", "mine");
       },
       12, 0},
  };
  for (const auto& row : table) {
    SCOPED_TRACE(row.what);
    const TempDir dir;
    stdfs::path block;
    {
      const auto store = open_store(options(dir.path()));
      ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
      ASSERT_TRUE(put_prompt(*store, other, kNative).ok());
      block = file_of(dir.path(), checked_prefix(*store, ids, 12).blocks[1]->key);
    }
    row.damage(dir.path() / identity().hex(), block);
    const auto store = open_store(options(dir.path()));
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(tokens_of(*store, ids), row.tokens);
    EXPECT_EQ(tokens_of(*store, other), 4);
    EXPECT_EQ(store->stats().quarantined, row.quarantined);
    EXPECT_EQ(quarantined_files(dir.path()), row.quarantined);
    EXPECT_TRUE(files_under(dir.path(), ".tmp").empty());
    ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
    EXPECT_EQ(tokens_of(*store, ids), 12) << "stored again";
  }
}

TEST(BlockStoreDisk, ADamagedByteAnywhereIsAMissFromThereOn) {
  const TempDir dir;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = 0;  // every lookup reads the files
  const auto store = open_store(o);
  const Ids ids = count_up(12);
  ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
  store->flush();
  const stdfs::path block = file_of(dir.path(), checked_prefix(*store, ids, 12).blocks[1]->key);
  const size_t size = stdfs::file_size(block);
  uint64_t damaged = 0;
  for (size_t at = 0; at < size; at += 13) {
    flip_byte(block, at);
    EXPECT_EQ(tokens_of(*store, ids), 4) << "byte " << at;
    EXPECT_FALSE(stdfs::exists(block));
    EXPECT_EQ(store->stats().quarantined, ++damaged);
    ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());  // the block after the damaged one is still there
    store->flush();
    EXPECT_EQ(tokens_of(*store, ids), 12) << "byte " << at;
  }
  EXPECT_GT(damaged, 20u);
}

TEST(BlockStoreDisk, FindsFilesThatAnotherProcessWrote) {
  const TempDir dir;
  const Ids ids = count_up(15);
  const auto store = open_store(options(dir.path()));
  ASSERT_TRUE(put_prompt(*store, Ids(ids.begin(), ids.begin() + 4), kNative).ok());
  const BlockContext context = BlockContext::of(identity(), tiny_layout());
  std::vector<stdfs::path> written;
  BlockKey parent = root_key(identity());
  for (int64_t a = 0; a < 14; a += kP) {  // from the root, beside the native block; 14: a partial tail
    Block b;
    b.parent = parent;
    b.first_token = a;
    const int64_t end = std::min<int64_t>(a + kP, 14);
    b.ids.assign(ids.begin() + a, ids.begin() + end);
    b.source = kProjectA;
    b.planes = rows(ids, a, end, kProjectA);
    b.key = parent = block_key(parent, kProjectA, b.ids);
    Bytes file = encode_block_header(b, context);
    file.insert(file.end(), b.planes.begin(), b.planes.end());
    const stdfs::path path = file_of(dir.path(), b.key);
    stdfs::create_directories(path.parent_path());
    write_text(path, as_text(file));
    written.push_back(path);
  }
  EXPECT_EQ(store->cached_tokens(ids, 15, nullptr), 4) << "an unknown producer cannot be guessed";
  EXPECT_EQ(store->cached_tokens(ids, 14, &kProjectA), 14) << "a named one is looked for";
  EXPECT_EQ(tokens_of(*store, ids), 14) << "and is known from then on";
  EXPECT_EQ(store->stats().adopted, 4u);

  // Not without validation.
  const auto fresh = [&](TokenId start) {
    Block b;
    b.parent = root_key(identity());
    b.ids = count_up(kP, start);
    b.planes = rows(b.ids, 0, kP, kNative);
    b.key = block_key(b.parent, kNative, b.ids);
    Bytes file = encode_block_header(b, context);
    file.insert(file.end(), b.planes.begin(), b.planes.end());
    file.back() ^= std::byte{1};
    stdfs::create_directories(file_of(dir.path(), b.key).parent_path());
    write_text(file_of(dir.path(), b.key), as_text(file));
    return b.ids;
  };
  EXPECT_EQ(tokens_of(*store, fresh(500)), 0);
  EXPECT_EQ(quarantined_files(dir.path()), 1u);
}

TEST(BlockStoreDisk, AWriteThatFailsLeavesNothingBehind) {
  const Ids ids = count_up(16);
  for (const char* step : {"create", "torn", "written", "renamed", "synced"}) {
    for (int k = 0; k < 4; ++k) {
      for (const Code code : {Code::kIo, Code::kResourceExhausted}) {
        SCOPED_TRACE(std::string(step) + " of write " + std::to_string(k));
        const TempDir dir;
        FaultyFs fs;
        BlockStoreOptions o = options(dir.path());
        o.fs = &fs;
        {
          const auto store = open_store(o);
          int seen = 0;
          int creates = 0;
          fs.at = [&](std::string_view at) {  // on the writer's thread only
            if (at == "create") ++creates;
            // Folders are synced too: count only what belongs to a file being written.
            return at == step && creates == k + 1 && seen++ == 0 ? Status(code, "injected") : Status();
          };
          ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
          store->flush();
          EXPECT_EQ(store->cached_tokens(ids, 16, nullptr), 16) << "still in memory";
          const StoreStats stats = store->stats();
          EXPECT_EQ(stats.failed_writes, 1u);
          EXPECT_EQ(stats.disk_writes, 3u);
          EXPECT_EQ(stats.disk_blocks, 3u);
          EXPECT_EQ(files_under(dir.path(), ".isb").size(), 3u);
          EXPECT_TRUE(files_under(dir.path(), ".tmp").empty());
        }
        fs.at = [](std::string_view) { return Status(); };
        const auto store = open_store(o);
        EXPECT_EQ(tokens_of(*store, ids), k * kP) << "up to the block that failed";
        ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
        store->flush();
        EXPECT_EQ(store->stats().disk_blocks, 4u);
      }
    }
  }
}

TEST(BlockStoreDisk, WritesStopBelowTheFloorAndResume) {
  const TempDir dir;
  FaultyFs fs;
  BlockStoreOptions o = options(dir.path());
  o.fs = &fs;
  o.disk_floor_bytes = 1 << 20;
  const auto store = open_store(o);
  const Ids a = count_up(8);
  fs.free = 1 << 20;
  ASSERT_TRUE(put_prompt(*store, a, kNative).ok());
  store->flush();
  EXPECT_EQ(store->stats().floor_skipped_writes, 2u);
  EXPECT_EQ(store->stats().disk_blocks, 0u);
  EXPECT_EQ(store->cached_tokens(a, 8, nullptr), 8) << "service goes on in memory";
  fs.free = 2 << 20;
  ASSERT_TRUE(put_prompt(*store, count_up(8, 100), kNative).ok());
  store->flush();
  EXPECT_EQ(store->stats().disk_blocks, 2u);
  // What was skipped is written when it is put again, or used.
  const auto sink = store->open_chain({a, 0, kNative, root_key(store->identity()), ""});
  ASSERT_TRUE(sink->put(0, 4, rows(a, 0, 4, kNative)).ok());
  store->flush();
  EXPECT_EQ(store->stats().disk_blocks, 3u);
  EXPECT_EQ(tokens_of(*store, a), 8);
  store->flush();
  EXPECT_EQ(store->stats().disk_blocks, 4u);
  EXPECT_EQ(tokens_of(*store, a), 8);
  store->flush();
  EXPECT_EQ(store->stats().disk_writes, 4u) << "once";
}

TEST(BlockStoreDisk, QuotaEvictsLeavesBeforeParentsLeastRecentlyUsedFirst) {
  const TempDir dir;
  const Ids a = count_up(8);
  const Ids b = count_up(8, 100);
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = 0;
  uint64_t file_bytes = 0;
  {
    const auto store = open_store(o);
    ASSERT_TRUE(put_prompt(*store, a, kNative).ok());
    ASSERT_TRUE(put_prompt(*store, b, kNative).ok());
    store->flush();
    EXPECT_EQ(tokens_of(*store, a), 8);  // b is the older one, also after the restart
    file_bytes = store->stats().disk_bytes / 4;
  }
  o.disk_quota_bytes = 4 * file_bytes;
  {
    const auto store = open_store(o);
    ASSERT_TRUE(put_prompt(*store, count_up(4, 200), kNative).ok());
    store->flush();
    EXPECT_EQ(store->cached_tokens(b, 8, nullptr), 4);
    EXPECT_EQ(store->cached_tokens(a, 8, nullptr), 8);
    EXPECT_EQ(store->stats().evicted_disk, 1u);
    EXPECT_EQ(files_under(dir.path(), ".isb").size(), 4u);
  }
  o.disk_quota_bytes = 2 * file_bytes;  // smaller at the next start
  const auto store = open_store(o);
  EXPECT_EQ(store->stats().disk_blocks, 2u);
  // A chain larger than the quota keeps its beginning.
  const Ids chain = count_up(16, 300);
  ASSERT_TRUE(put_prompt(*store, chain, kNative).ok());
  store->flush();
  EXPECT_EQ(tokens_of(*store, chain), 8);
  EXPECT_GE(store->stats().dropped_writes, 1u);
}

// The writer's thread stands still in its first write until released.
struct Gate {
  Mutex mutex;
  CondVar changed;
  bool open GUARDED_BY(mutex) = false;
  bool reached GUARDED_BY(mutex) = false;

  Status pass() {
    MutexLock lock(mutex);
    reached = true;
    changed.notify_all();
    while (!open) changed.wait(mutex);
    return {};
  }
  void wait_reached() {
    MutexLock lock(mutex);
    while (!reached) changed.wait(mutex);
  }
  void release() {
    MutexLock lock(mutex);
    open = true;
    changed.notify_all();
  }
};

TEST(BlockStoreDisk, ASlowDiskDropsWritesAndStopsNobody) {
  const TempDir dir;
  FaultyFs fs;
  Gate gate;
  BlockStoreOptions o = options(dir.path());
  o.fs = &fs;
  constexpr uint64_t kBlockBytes = kP * 16 + kP * 4;
  o.ram_bytes = 2 * kBlockBytes;
  o.write_queue_bytes = 3 * kBlockBytes;
  const Ids ids = count_up(24);
  {
    const auto store = open_store(o);
    fs.at = [&](std::string_view at) { return at == "create" ? gate.pass() : Status(); };
    const auto sink = store->open_chain({ids, 0, kNative, root_key(store->identity()), ""});
    ASSERT_TRUE(sink->put(0, 4, rows(ids, 0, 4, kNative)).ok());
    gate.wait_reached();
    int64_t end = 4;
    while (sink->put(end, end + kP, rows(ids, end, end + kP, kNative)).ok()) end += kP;
    EXPECT_EQ(end, 20) << "budget and queue are full of blocks that are not durable";
    EXPECT_EQ(store->cached_tokens(ids, 24, nullptr), 20);
    EXPECT_EQ(store->stats().dropped_writes, 2u);
    gate.release();
    store->flush();
    EXPECT_EQ(store->stats().disk_writes, 3u);
    EXPECT_EQ(store->stats().disk_blocks, 3u);
    ASSERT_TRUE(sink->seal(20).ok());
    EXPECT_EQ(tokens_of(*store, ids), 20) << "reading the first three must not push out the last two";
  }
  fs.at = [](std::string_view) { return Status(); };
  EXPECT_EQ(tokens_of(*open_store(o), ids), 20) << "the last two were written when they were used";
}

TEST(BlockStoreDisk, AnUnreadableDiskIsAMissAndKeepsTheFile) {
  const TempDir dir;
  FaultyFs fs;
  BlockStoreOptions o = options(dir.path());
  o.ram_bytes = 0;
  o.fs = &fs;
  const auto store = open_store(o);
  const Ids ids = count_up(8);
  ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
  store->flush();
  fs.at = [](std::string_view at) { return at == "read" ? Status(Code::kIo, "injected") : Status(); };
  EXPECT_EQ(tokens_of(*store, ids), 0);
  fs.at = [](std::string_view) { return Status(); };
  EXPECT_EQ(tokens_of(*store, ids), 8);
  EXPECT_EQ(store->stats().quarantined, 0u);
}

}  // namespace
}  // namespace isthmus
