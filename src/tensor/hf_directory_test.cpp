// SPDX-License-Identifier: Apache-2.0
#include "tensor/hf_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/hash.h"

namespace isthmus {
namespace {

namespace fs = std::filesystem;

class HfDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / ("isthmus_hf_" + random_hex(8));
    fs::create_directories(dir_);
    text("config.json", R"({"model_type":"llama"})");
  }
  void TearDown() override { fs::remove_all(dir_); }

  void text(const std::string& name, const std::string& content) { std::ofstream(dir_ / name) << content; }
  // One U8 tensor [2] per name, filled with `value`.
  void weights(const std::string& file, const std::vector<std::string>& names, int value = 1) {
    const Bytes data(2, static_cast<std::byte>(value));
    std::vector<TensorView> tensors;
    for (const std::string& n : names) tensors.push_back({n, DType::kU8, {2}, data});
    PosixFs posix;
    ASSERT_TRUE(write_safetensors_file(posix, dir_ / file, tensors).ok());
  }
  void index(const std::string& map) {
    text("model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
  }
  void expect_refused(Code code, const std::string& part) {
    const Result<HfDirectory> model = HfDirectory::open(dir_);
    EXPECT_EQ(model.status().code(), code) << model.status().message();
    EXPECT_NE(model.status().message().find(part), std::string::npos) << model.status().message();
  }

  fs::path dir_;
};

TEST_F(HfDirectoryTest, SingleFile) {
  weights("model.safetensors", {"a", "b"}, 7);
  Result<HfDirectory> opened = HfDirectory::open(dir_);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const HfDirectory model = opened.take();
  EXPECT_EQ(model.config()["model_type"], "llama");
  EXPECT_EQ(model.tensors().find("b")->data[1], std::byte{7});
  ASSERT_EQ(model.weight_files().size(), 1u);
  EXPECT_EQ(model.weight_files()[0].path.filename(), "model.safetensors");
}

TEST_F(HfDirectoryTest, Shards) {
  weights("model-00001-of-00002.safetensors", {"a", "c"}, 1);
  weights("model-00002-of-00002.safetensors", {"b"}, 2);
  index(
      R"({"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors","c":"model-00001-of-00002.safetensors"})");
  const Result<HfDirectory> model = HfDirectory::open(dir_);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->tensors().find("b")->data[0], std::byte{2});
  EXPECT_EQ(model->tensors().find("c")->data[0], std::byte{1});
  EXPECT_EQ(model->weight_files().size(), 2u);
}

TEST_F(HfDirectoryTest, SingleFileWinsOverAnIndex) {
  weights("model.safetensors", {"a"});
  index(R"({"a":"missing.safetensors"})");
  EXPECT_TRUE(HfDirectory::open(dir_).ok());
}

TEST_F(HfDirectoryTest, MissingFiles) {
  expect_refused(Code::kNotFound, "neither model.safetensors nor");
  index(R"({"a":"model-1.safetensors"})");
  expect_refused(Code::kNotFound, "model-1.safetensors");
  fs::remove(dir_ / "config.json");
  expect_refused(Code::kNotFound, "config.json");
}

TEST_F(HfDirectoryTest, BadJson) {
  weights("model.safetensors", {"a"});
  text("config.json", "{");
  expect_refused(Code::kCorrupt, "config.json");
  text("config.json", "[]");
  expect_refused(Code::kCorrupt, "expected a JSON object");
}

TEST_F(HfDirectoryTest, IndexAndShardsDisagree) {
  weights("1.safetensors", {"a", "b"});
  weights("2.safetensors", {"c"});
  index(R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","d":"2.safetensors"})");
  expect_refused(Code::kCorrupt, "holds 1 tensors, the index places 2");
  index(R"({"a":"1.safetensors","c":"2.safetensors"})");
  expect_refused(Code::kCorrupt, "holds tensor 'b', which the index places nowhere");
  weights("2.safetensors", {"b", "c"});
  index(R"({"a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"})");
  expect_refused(Code::kCorrupt, "holds tensor 'b', which the index places in '1.safetensors'");
}

TEST_F(HfDirectoryTest, IndexTable) {
  weights("1.safetensors", {"a"});
  fs::create_directories(dir_ / "sub");
  for (const char* map : {"[]", "{}", "null", R"({"a":1})", R"({"a":""})", R"({"a":"../1.safetensors"})",
                          R"({"a":"/etc/1.safetensors"})", R"({"a":"sub/1.safetensors"})",
                          R"({"a":"sub\\1.safetensors"})", R"({"a":".hidden.safetensors"})",
                          R"({"a":"..safetensors"})", R"({"a":".safetensors"})", R"({"a":"config.json"})",
                          R"({"a":"c:1.safetensors"})", R"({"a":"1.safetensors\u0000.safetensors"})"}) {
    index(map);
    const Result<HfDirectory> model = HfDirectory::open(dir_);
    EXPECT_EQ(model.status().code(), Code::kCorrupt) << map << ": " << model.status().message();
  }
  index("{\"a\":\"" + std::string(250, 'x') + ".safetensors\"}");
  expect_refused(Code::kCorrupt, "expected the name");
  index(R"({"a":"1.safetensors"})");
  EXPECT_TRUE(HfDirectory::open(dir_).ok());
}

}  // namespace
}  // namespace isthmus
