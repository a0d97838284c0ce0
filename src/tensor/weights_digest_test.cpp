// SPDX-License-Identifier: Apache-2.0
#include "tensor/weights_digest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/fs.h"
#include "tensor/safetensors.h"

namespace isthmus {
namespace {

TensorTable table(std::vector<TensorView> tensors) {
  return TensorTable::build(std::move(tensors), "t").take();
}

TEST(WeightsDigest, DependsOnEverythingButOrder) {
  const Bytes data = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const Bytes flipped = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{5}};
  const TensorView a{"a", DType::kU8, {4}, data};
  const TensorView b{"b", DType::kF32, {1}, data};
  const Digest base = weights_digest(table({a, b}));
  EXPECT_EQ(base, weights_digest(table({b, a})));

  const TensorView renamed{"c", DType::kF32, {1}, data};
  const TensorView retyped{"b", DType::kI32, {1}, data};
  const TensorView reshaped{"b", DType::kF32, {1, 1}, data};
  const TensorView changed{"b", DType::kF32, {1}, flipped};
  for (const TensorView& other : {renamed, retyped, reshaped, changed}) {
    EXPECT_NE(base, weights_digest(table({a, other}))) << other.name;
  }
  EXPECT_NE(base, weights_digest(table({a})));
  EXPECT_NE(weights_digest(table({})), weights_digest(table({a})));
}

TEST(WeightsDigest, KnownValue) {
  // Pinned: a change here makes every stored block of every model unreachable.
  const Bytes data = {std::byte{1}, std::byte{2}};
  const TensorView t{"w", DType::kBF16, {1}, data};
  std::string text = "isthmus weights 1\n";
  const auto u64 = [&text](uint64_t v) { text.append(reinterpret_cast<const char*>(&v), sizeof v); };
  u64(1);
  u64(1);
  text += "w";
  u64(4);
  text += "bf16";
  u64(1);
  u64(1);
  u64(2);
  text += "\x01\x02";
  EXPECT_EQ(weights_digest(table({t})).hex(), sha256(text).hex());
}

class CachedDigestTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) / ("isthmus_digest_" + random_hex(8));
    std::filesystem::create_directories(dir_);
    write(1);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(int value) {
    const Bytes data(64, static_cast<std::byte>(value));
    PosixFs posix;
    ASSERT_TRUE(
        write_safetensors_file(posix, model(), std::vector<TensorView>{{"w", DType::kU8, {64}, data}}).ok());
  }
  std::filesystem::path model() const { return dir_ / "m.safetensors"; }
  std::filesystem::path cache() const { return dir_ / "cache"; }
  std::filesystem::path entry() const { return std::filesystem::directory_iterator(cache())->path(); }

  // The digest of `tensors` under the stamps of the model file: asking with other tensors shows whether the
  // cache answered.
  Digest ask(const TensorTable& tensors) {
    const std::vector<WeightFile> files = {{model(), *file_stamp(model())}};
    return cached_weights_digest(tensors, files, cache());
  }

  TensorTable empty_;
  std::filesystem::path dir_;
};

TEST_F(CachedDigestTest, SecondAskIsAnsweredFromTheFile) {
  const Safetensors file = Safetensors::open(model()).take();
  const Digest digest = ask(file.tensors());
  EXPECT_EQ(digest, weights_digest(file.tensors()));
  EXPECT_EQ(ask(empty_), digest);
}

TEST_F(CachedDigestTest, AReplacedModelIsComputedAgain) {
  const Digest before = ask(Safetensors::open(model()).take().tensors());
  write(2);  // same size; another inode and mtime
  const Digest after = ask(Safetensors::open(model()).take().tensors());
  EXPECT_NE(before, after);
  EXPECT_EQ(ask(empty_), after);
}

TEST_F(CachedDigestTest, EveryPartOfTheStampCounts) {
  const Digest digest = ask(Safetensors::open(model()).take().tensors());
  const FileStamp stamp = *file_stamp(model());
  FileStamp size = stamp;
  ++size.size;
  FileStamp time = stamp;
  ++time.mtime_ns;
  FileStamp inode = stamp;
  ++inode.inode;
  for (const FileStamp& other : {size, time, inode}) {
    const std::vector<WeightFile> files = {{model(), other}};
    EXPECT_NE(cached_weights_digest(empty_, files, cache()), digest);
  }
  // These stamps are not the file's, so nothing was stored under them.
  EXPECT_EQ(ask(empty_), digest);
}

TEST_F(CachedDigestTest, ADamagedEntryIsComputedAgain) {
  const TensorTable tensors;
  const Digest digest = ask(tensors);
  const std::string good = *read_text_file(entry(), 1 << 20);
  std::string other_digest = good;
  other_digest.replace(other_digest.find(digest.hex()), 64, std::string(64, '0'));
  const Safetensors file = Safetensors::open(model()).take();
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() / 2), other_digest, std::string("[]"), std::string("{}"),
        std::string(R"({"files":1,"digest":"x","check":null})")}) {
    std::ofstream(entry(), std::ios::trunc) << bad;
    EXPECT_EQ(ask(file.tensors()), weights_digest(file.tensors())) << bad;
    EXPECT_EQ(ask(empty_), weights_digest(file.tensors())) << "not replaced: " << bad;
  }
}

TEST_F(CachedDigestTest, AnUnwritableCacheIsNotAnError) {
  std::ofstream(dir_ / "cache") << "a file where the directory should be";
  const Safetensors file = Safetensors::open(model()).take();
  EXPECT_EQ(ask(file.tensors()), weights_digest(file.tensors()));
}

}  // namespace
}  // namespace isthmus
