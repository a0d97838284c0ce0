// SPDX-License-Identifier: Apache-2.0
// The packed file is a cache: with it, without it and with a damaged one a model computes the same bits.
#include "model/packed_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/fs.h"
#include "model/test_models.h"

namespace isthmus {
namespace {

namespace stdfs = std::filesystem;
using namespace test_models;

class PackedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    directory_ = stdfs::path(testing::TempDir()) / (std::string("isthmus_packed_") + info->name());
    stdfs::remove_all(directory_);
    name_ = {directory_ / "model.safetensors", "key 1", golden("llama_tiny")};
  }
  void TearDown() override { stdfs::remove_all(directory_); }

  // Logits after a prompt of 70 tokens, and its cache.
  std::pair<std::vector<float>, std::vector<std::byte>> run(const PackedFileName& packed) {
    auto model = Model::load(golden("llama_tiny"), {.max_positions = 100, .packed = packed}).take();
    KvPool pool = KvPool::create(model->kv_shape(), 128).take();
    Sequence seq(pool);
    const std::vector<TokenId> ids = counted_ids(70, model->config().vocab, 1);
    prompt(*model, std::span(ids).first(69), seq, 64);
    std::vector<float> logits = step(*model, ids.back(), seq);
    return {logits, cache_bytes(seq)};
  }

  FileStamp stamp() { return file_stamp(name_.path).take(); }

  void damage(uint64_t at) {
    std::fstream f(name_.path, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(f.get() ^ 1);
    f.seekp(static_cast<std::streamoff>(at));
    f.put(byte);
  }

  stdfs::path directory_;
  PackedFileName name_;
};

TEST_F(PackedFileTest, ASecondLoadMapsItAndComputesTheSameBits) {
  const auto without = run({});
  EXPECT_FALSE(stdfs::exists(directory_));
  EXPECT_EQ(run(name_), without);
  const FileStamp written = stamp();
  EXPECT_EQ(run(name_), without);
  EXPECT_EQ(stamp(), written) << "written again";

  const auto file = PackedFile::open(name_);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto config = Checkpoint::open(golden("llama_tiny")).take().config();
  EXPECT_TRUE(file->find("0.o", DType::kBF16, config.width, config.q_width()).has_value());
  EXPECT_FALSE(file->find("0.x", DType::kBF16, config.width, config.q_width()).has_value());
  EXPECT_FALSE(file->find("0.o", DType::kBF16, config.width + 16, config.q_width()).has_value());
}

TEST_F(PackedFileTest, OfOtherWeightsIsReplaced) {
  const auto expected = run(name_);
  const FileStamp written = stamp();
  PackedFileName other = name_;
  other.key = "key 2";
  EXPECT_EQ(PackedFile::open(other).status().code(), Code::kNotFound);
  EXPECT_EQ(run(other), expected);
  EXPECT_NE(stamp().inode, written.inode);
  EXPECT_TRUE(PackedFile::open(other).ok());
}

TEST_F(PackedFileTest, DamagedIsNoticedAndReplaced) {
  const auto expected = run(name_);
  const uint64_t size = stamp().size;
  for (const uint64_t at : {uint64_t{0}, uint64_t{9}, size / 2, size - 1}) {
    damage(at);
    EXPECT_FALSE(PackedFile::open(name_).ok()) << "byte " << at;
    EXPECT_EQ(run(name_), expected) << "byte " << at;
    EXPECT_TRUE(PackedFile::open(name_).ok()) << "not replaced after byte " << at;
  }
  stdfs::resize_file(name_.path, size - 64);
  EXPECT_EQ(PackedFile::open(name_).status().code(), Code::kCorrupt);
  EXPECT_EQ(run(name_), expected);
  stdfs::resize_file(name_.path, 0);
  EXPECT_EQ(run(name_), expected);
  EXPECT_TRUE(PackedFile::open(name_).ok());
}

TEST_F(PackedFileTest, WhereItCannotBeWrittenTheModelLoadsAllTheSame) {
  const auto expected = run({});
  std::ofstream(directory_) << "a file where the folder should be";
  EXPECT_EQ(run(name_), expected);
}

TEST_F(PackedFileTest, LeavesTheDiskItsFloor) {
  const Result<kernels::PackedMatrix> m = kernels::PackedMatrix::pack(std::vector<float>(64).data(), 8, 8);
  const NamedMatrix named{"m", &*m};
  EXPECT_EQ(write_packed_file(name_, {&named, 1}, uint64_t{1} << 62).code(), Code::kResourceExhausted);
  EXPECT_FALSE(stdfs::exists(name_.path));
  EXPECT_TRUE(write_packed_file(name_, {&named, 1}).ok());
}

TEST_F(PackedFileTest, FilesOfModelsThatAreGoneAreRemoved) {
  const Result<kernels::PackedMatrix> m = kernels::PackedMatrix::pack(std::vector<float>(64).data(), 8, 8);
  const NamedMatrix named{"m", &*m};
  const stdfs::path model = directory_ / "some.gguf";
  const PackedFileName gone = {directory_ / "gone.safetensors", "k", model};
  ASSERT_TRUE(write_packed_file(gone, {&named, 1}).ok());
  std::ofstream(model) << "here";
  ASSERT_TRUE(write_packed_file(name_, {&named, 1}).ok());
  EXPECT_TRUE(stdfs::exists(gone.path));
  stdfs::remove(model);
  ASSERT_TRUE(write_packed_file(name_, {&named, 1}).ok());
  EXPECT_FALSE(stdfs::exists(gone.path));
  EXPECT_TRUE(stdfs::exists(name_.path));
}

TEST_F(PackedFileTest, OneWriterAtATime) {
  const Result<kernels::PackedMatrix> m = kernels::PackedMatrix::pack(std::vector<float>(64).data(), 8, 8);
  const NamedMatrix named{"m", &*m};
  ASSERT_TRUE(write_packed_file(name_, {&named, 1}).ok());
  const FileStamp written = stamp();
  const auto held = FileLock::acquire(directory_ / "model.lock");
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(write_packed_file(name_, {&named, 1}).code(), Code::kUnavailable);
  EXPECT_EQ(stamp(), written);
}

}  // namespace
}  // namespace isthmus
