// SPDX-License-Identifier: Apache-2.0
// A process that dies at each step of its block writes; what the next one finds.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store_test_util.h"

namespace isthmus {
namespace {

using namespace store_test;

constexpr int kKilled = 9;

// Runs a store that dies at step `n` of its writes, in a child process. Its exit code: 0 when it got through.
int run_and_die(const std::filesystem::path& directory, const Ids& ids, int n) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFs fs;
    BlockStoreOptions o = options(directory);
    o.fs = &fs;
    int step = 0;
    fs.at = [&step, n](std::string_view) {
      if (step++ == n) ::_exit(kKilled);
      return Status();
    };
    auto store = BlockStore::create(o, tiny_layout(), identity());
    if (!store.ok() || !put_prompt(**store, ids, kNative).ok()) ::_exit(1);
    (*store)->flush();
    store->reset();
    ::_exit(0);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST(BlockStoreCrash, EveryStepLeavesAStoreThatOpensAndOnlyWholeBlocks) {
  const Ids ids = count_up(14);
  const Ids before = count_up(8, 100);
  int n = 0;
  int64_t last_tokens = 0;
  for (;; ++n) {
    SCOPED_TRACE("dies at step " + std::to_string(n));
    const TempDir dir;
    ASSERT_TRUE(put_prompt(*open_store(options(dir.path())), before, kNative).ok());
    const int code = run_and_die(dir.path(), ids, n);
    if (code == 0) break;
    ASSERT_EQ(code, kKilled);
    {
      const auto store = open_store(options(dir.path()));
      ASSERT_NE(store, nullptr);
      EXPECT_TRUE(files_under(dir.path(), ".tmp").empty());
      EXPECT_EQ(store->stats().quarantined, 0u);
      EXPECT_EQ(tokens_of(*store, before), 8);
      const int64_t tokens = tokens_of(*store, ids);
      EXPECT_GE(tokens, last_tokens) << "what was durable one step earlier";
      EXPECT_TRUE(tokens % kP == 0 || tokens == 14);
      last_tokens = tokens;
      ASSERT_TRUE(put_prompt(*store, ids, kNative).ok());
      EXPECT_EQ(tokens_of(*store, ids), 14);
    }
    EXPECT_EQ(tokens_of(*open_store(options(dir.path())), ids), 14);
  }
  EXPECT_EQ(last_tokens, 14);
  EXPECT_GE(n, 4 * 5) << "five steps for each of four blocks";
}

}  // namespace
}  // namespace isthmus
