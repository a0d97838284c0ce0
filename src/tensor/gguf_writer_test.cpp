// SPDX-License-Identifier: Apache-2.0
#include "tensor/gguf_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"

namespace isthmus {
namespace {

Bytes counted(size_t n) {
  Bytes b(n);
  for (size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i);
  return b;
}

GgufWriter filled(const Bytes& data) {
  const std::span<const std::byte> all(data);
  GgufWriter w;
  w.set_string("general.architecture", "llama");
  w.set_u32("a.count", 7);
  w.set_f32("a.eps", 1e-5f);
  w.set_bool("a.flag", true);
  w.set_string_array("a.tokens", std::vector<std::string>{"x", "", "yz"});
  w.add_tensor({"first", DType::kQ8_0, {2, 32}, all.first(68)});
  w.add_tensor({"second", DType::kF32, {1, 3, 1}, all.first(12)});
  return w;
}

TEST(GgufWriter, WhatIsWrittenIsRead) {
  const Bytes data = counted(68);
  const Result<Bytes> bytes = filled(data).to_bytes();
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  const Result<GgufFile> file = GgufFile::parse(*bytes, "t");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->version(), 3u);
  EXPECT_EQ(*file->get_string("general.architecture"), "llama");
  EXPECT_EQ(*file->get_u32("a.count"), 7u);
  EXPECT_EQ(*file->get_f32("a.eps"), 1e-5f);
  EXPECT_TRUE(*file->get_bool("a.flag"));
  EXPECT_EQ(*file->get_string_array("a.tokens"), (std::vector<std::string_view>{"x", "", "yz"}));
  const TensorView* first = file->tensors().find("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->dtype, DType::kQ8_0);
  EXPECT_EQ(first->shape, (std::vector<int64_t>{2, 32}));
  EXPECT_TRUE(std::equal(first->data.begin(), first->data.end(), data.begin(), data.end()));
  EXPECT_EQ(file->tensors().find("second")->shape, (std::vector<int64_t>{1, 3, 1}));
}

TEST(GgufWriter, CopiedMetadataKeepOrderAndCanBeReplaced) {
  const Bytes data = counted(68);
  const Bytes bytes = *filled(data).to_bytes();
  const Result<GgufFile> source = GgufFile::parse(bytes, "t");
  ASSERT_TRUE(source.ok());
  GgufWriter copy;
  copy.copy_metadata(*source);
  for (const TensorView& t : source->tensors()) copy.add_tensor(t);
  EXPECT_EQ(*copy.to_bytes(), bytes);

  copy.set_u32("a.count", 8);
  const Bytes changed = *copy.to_bytes();
  const Result<GgufFile> file = GgufFile::parse(changed, "t");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->get_u32("a.count"), 8u);
  EXPECT_EQ(file->metadata()[1].key, "a.count");
  EXPECT_EQ(file->metadata().size(), source->metadata().size());
}

TEST(GgufWriter, AlignmentOfTheSourceIsNotCopied) {
  GgufWriter odd;
  odd.set_u32("general.alignment", 4096);
  odd.set_u32("k", 1);
  const Bytes bytes = *odd.to_bytes();
  const Result<GgufFile> source = GgufFile::parse(bytes, "t");
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->alignment(), 4096u);
  GgufWriter copy;
  copy.copy_metadata(*source);
  const Bytes data = counted(40);
  copy.add_tensor({"a", DType::kI8, {40}, data});
  copy.add_tensor({"b", DType::kI8, {40}, data});
  const Bytes copied = *copy.to_bytes();
  const Result<GgufFile> file = GgufFile::parse(copied, "t");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->alignment(), 32u);
}

TEST(GgufWriter, Refusals) {
  const Bytes data = counted(68);
  const std::span<const std::byte> all(data);
  struct Case {
    TensorView tensor;
    Code code;
  };
  const Case cases[] = {
      {{"t", DType::kF8E4M3, {4}, all.first(4)}, Code::kUnsupported},
      {{"t", DType::kF32, {4}, all.first(4)}, Code::kInvalidArgument},
      {{"t", DType::kF32, {0}, {}}, Code::kInvalidArgument},
      {{"t", DType::kF32, {}, all.first(4)}, Code::kInvalidArgument},
      {{"t", DType::kF32, {1, 1, 1, 1, 1}, all.first(4)}, Code::kInvalidArgument},
      {{"", DType::kF32, {1}, all.first(4)}, Code::kInvalidArgument},
      {{"second", DType::kF32, {1}, all.first(4)}, Code::kInvalidArgument},  // the name is taken
  };
  for (const Case& c : cases) {
    GgufWriter w = filled(data);
    w.add_tensor(c.tensor);
    EXPECT_EQ(w.to_bytes().status().code(), c.code) << c.tensor.name << shape_text(c.tensor.shape);
  }
}

TEST(GgufWriter, FileIsTheBuffer) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("isthmus_gguf_" + random_hex(8));
  const Bytes data = counted(68);
  PosixFs fs;
  ASSERT_TRUE(filled(data).write_file(fs, path).ok());
  const Result<GgufFile> file = GgufFile::open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->weight_files().size(), 1u);
  EXPECT_EQ(file->weight_files()[0].stamp, *file_stamp(path));
  EXPECT_EQ(file->tensors().size(), 2u);
  // The mapped tensors end where the file does, so the padding behind the last one was written too.
  EXPECT_EQ(*fs.read_file(path), *filled(data).to_bytes());
  EXPECT_TRUE(fs.remove(path).ok());
}

}  // namespace
}  // namespace isthmus
