// SPDX-License-Identifier: Apache-2.0
// Headers written by hand: what is read, and what is refused with which words.
#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"

namespace isthmus {
namespace {

// Length, header, `data_bytes` bytes 0, 1, 2, ...
Bytes file_of(const std::string& header, size_t data_bytes) {
  ByteWriter w;
  w.write<uint64_t>(header.size());
  w.append(header);
  for (size_t i = 0; i < data_bytes; ++i) w.write<uint8_t>(static_cast<uint8_t>(i));
  return w.take();
}

std::string tensor_json(const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

struct Case {
  const char* what;
  std::string header;
  size_t data_bytes;
  const char* expected;  // a part of the message; empty: accepted
};

const Case kCases[] = {
    {"no tensors", "{}", 0, ""},
    {"padded with spaces", "{}      ", 0, ""},
    {"scalar", "{" + tensor_json("a", "F32", "[]", "[0,4]") + "}", 4, ""},
    {"zero rows", "{" + tensor_json("a", "BF16", "[0,8]", "[0,0]") + "}", 0, ""},
    {"zero rows between others",
     "{" + tensor_json("a", "U8", "[1]", "[0,1]") + "," + tensor_json("z", "U8", "[0]", "[1,1]") + "," +
         tensor_json("b", "U8", "[1]", "[1,2]") + "}",
     2, ""},
    {"fields in another order", R"({"a":{"data_offsets":[0,2],"shape":[2],"dtype":"I8"}})", 2, ""},
    {"data in another order than names",
     "{" + tensor_json("a", "U8", "[2]", "[2,4]") + "," + tensor_json("b", "F16", "[1]", "[0,2]") + "}", 4,
     ""},
    {"metadata", R"({"__metadata__":{"format":"pt"},)" + tensor_json("a", "I64", "[1]", "[0,8]") + "}", 8,
     ""},
    {"only metadata", R"({"__metadata__":{}})", 0, ""},
    {"escaped name", "{" + tensor_json("\\u00e4", "F8_E4M3", "[1]", "[0,1]") + "}", 1, ""},

    {"empty header", "", 0, "does not begin"},
    {"leading space", " {}", 0, "does not begin"},
    {"array", "[]", 0, "does not begin"},
    {"cut JSON", "{\"a\":", 0, "not JSON"},
    {"text behind", "{}{}", 0, "not JSON"},
    {"zero byte behind", std::string("{}\0", 3), 0, "not JSON"},
    {"invalid UTF-8", "{\"\xff\":1}", 0, "not JSON"},
    {"shape against span", "{" + tensor_json("a", "F32", "[32,8]", "[0,65536]") + "}", 65536,
     "needs 1024 bytes, has 65536"},
    {"span smaller than shape", "{" + tensor_json("a", "F32", "[2]", "[0,4]") + "}", 4,
     "needs 8 bytes, has 4"},
    {"overlap",
     "{" + tensor_json("a", "U8", "[3]", "[0,3]") + "," + tensor_json("b", "U8", "[2]", "[2,4]") + "}", 4,
     "overlap"},
    {"same bytes twice",
     "{" + tensor_json("a", "U8", "[2]", "[0,2]") + "," + tensor_json("b", "U8", "[2]", "[0,2]") + "}", 2,
     "overlap"},
    {"gap", "{" + tensor_json("a", "U8", "[1]", "[0,1]") + "," + tensor_json("b", "U8", "[1]", "[2,3]") + "}",
     3, "gap"},
    {"gap in front", "{" + tensor_json("a", "U8", "[1]", "[1,2]") + "}", 2, "gap"},
    {"bytes behind", "{" + tensor_json("a", "U8", "[1]", "[0,1]") + "}", 2, "cover 1 bytes of 2"},
    {"past the end", "{" + tensor_json("a", "U8", "[2]", "[0,2]") + "}", 1, "of 1"},
    {"far past the end",
     "{" + tensor_json("a", "U8", "[2]", "[18446744073709551614,18446744073709551615]") + "}", 2, "of 2"},
    {"backwards", "{" + tensor_json("a", "U8", "[1]", "[1,0]") + "}", 1, "[1, 0)"},
    {"product 2^64", "{" + tensor_json("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0,
     "more than 2^63 elements"},
    {"product 2^64 behind a zero", "{" + tensor_json("a", "U8", "[0,4294967296,4294967296]", "[0,0]") + "}",
     0, "more than 2^63"},
    {"bytes over 2^63", "{" + tensor_json("a", "I64", "[4611686018427387904]", "[0,0]") + "}", 0,
     "more than 2^63 bytes"},
    {"dimension over 2^63", "{" + tensor_json("a", "U8", "[9223372036854775808]", "[0,0]") + "}", 0,
     "dimension over"},
    {"dimension over 2^64", "{" + tensor_json("a", "U8", "[18446744073709551616]", "[0,0]") + "}", 0,
     "fraction"},
    {"negative dimension", "{" + tensor_json("a", "U8", "[-1]", "[0,1]") + "}", 1, "negative"},
    {"fraction", "{" + tensor_json("a", "U8", "[1.0]", "[0,1]") + "}", 1, "fraction"},
    {"rank 17", "{" + tensor_json("a", "U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]") + "}", 1,
     "16 dimensions"},
    {"unknown dtype", "{" + tensor_json("a", "F64", "[1]", "[0,8]") + "}", 8, "tensor 'a' has dtype 'F64'"},
    {"lower-case dtype", "{" + tensor_json("a", "f32", "[1]", "[0,4]") + "}", 4, "not supported"},
    {"one offset", "{" + tensor_json("a", "U8", "[1]", "[0]") + "}", 1, "fewer than two"},
    {"three offsets", "{" + tensor_json("a", "U8", "[1]", "[0,1,1]") + "}", 1, "a number"},
    {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1, "lacks"},
    {"two shapes", R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1,
     "two fields 'shape'"},
    {"unknown field", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1,
     "unknown field 'x'"},
    {"two names",
     "{" + tensor_json("a", "U8", "[1]", "[0,1]") + "," + tensor_json("a", "U8", "[1]", "[1,2]") + "}", 2,
     "two tensors are named 'a'"},
    {"same name by escape",
     "{" + tensor_json("a", "U8", "[1]", "[0,1]") + "," + tensor_json("\\u0061", "U8", "[1]", "[1,2]") + "}",
     2, "two tensors"},
    {"tensor is a number", R"({"a":1})", 0, "a number"},
    {"tensor is null", R"({"a":null})", 0, "null"},
    {"dtype is a number", R"({"a":{"dtype":1}})", 0, "a number"},
    {"shape is text", R"({"a":{"shape":"1"}})", 0, "a string"},
    {"nested shape", R"({"a":{"shape":[[1]]}})", 0, "an array"},
    {"object in shape", R"({"a":{"shape":[{}]}})", 0, "an object"},
    {"metadata number", R"({"__metadata__":{"a":1}})", 0, "a number"},
    {"metadata object", R"({"__metadata__":{"a":{}}})", 0, "an object"},
    {"metadata text", R"({"__metadata__":"x"})", 0, "a string"},
    {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice"},
    {"metadata key twice", R"({"__metadata__":{"k":"1","k":"2"}})", 0, "metadata key 'k' appears twice"},
};

TEST(Safetensors, HeaderTable) {
  for (const Case& c : kCases) {
    const Bytes bytes = file_of(c.header, c.data_bytes);
    const Result<Safetensors> file = Safetensors::parse(bytes, "t");
    if (*c.expected == '\0') {
      EXPECT_TRUE(file.ok()) << c.what << ": " << file.status().message();
      continue;
    }
    ASSERT_FALSE(file.ok()) << c.what;
    EXPECT_NE(file.status().message().find(c.expected), std::string::npos)
        << c.what << ": " << file.status().message();
    EXPECT_EQ(file.status().message().rfind("t: ", 0), 0u) << file.status().message();
  }
}

TEST(Safetensors, LengthFieldTable) {
  struct Length {
    uint64_t value;
    const char* expected;
  };
  for (const Length& c : {Length{uint64_t{1} << 63, "header of 9223372036854775808 bytes"},
                          {UINT64_MAX, "header of"},
                          {3, "in a file of 10"},
                          {1, "not JSON"}}) {
    ByteWriter w;
    w.write<uint64_t>(c.value);
    w.append("{}");
    const Result<Safetensors> file = Safetensors::parse(w.bytes(), "t");
    ASSERT_FALSE(file.ok()) << c.value;
    EXPECT_NE(file.status().message().find(c.expected), std::string::npos) << file.status().message();
  }
  const Bytes seven(7);
  EXPECT_EQ(Safetensors::parse(seven, "t").status().code(), Code::kCorrupt);
  EXPECT_EQ(Safetensors::parse({}, "t").status().code(), Code::kCorrupt);
}

TEST(Safetensors, HeaderLimit) {
  const Bytes bytes = file_of("{}" + std::string(100, ' '), 0);
  EXPECT_TRUE(Safetensors::parse(bytes, "t", {.max_header_bytes = 102}).ok());
  EXPECT_EQ(Safetensors::parse(bytes, "t", {.max_header_bytes = 101}).status().code(),
            Code::kResourceExhausted);
}

TEST(Safetensors, DeepNestingIsRefusedWithoutRecursion) {
  const Bytes bytes = file_of("{\"a\":" + std::string(1'000'000, '['), 0);
  EXPECT_EQ(Safetensors::parse(bytes, "t").status().code(), Code::kCorrupt);
}

TEST(Safetensors, ViewsPointAtTheirBytes) {
  const Bytes bytes =
      file_of("{" + tensor_json("late", "U8", "[2,2]", "[2,6]") + "," +
                  tensor_json("early", "BF16", "[1]", "[0,2]") + R"(,"__metadata__":{"k":"v"}})",
              6);
  const Result<Safetensors> file = Safetensors::parse(bytes, "t");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  EXPECT_EQ(file->tensors().all()[0].name, "late");
  EXPECT_EQ(file->metadata().at("k"), "v");
  const TensorView* late = file->tensors().find("late");
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->dtype, DType::kU8);
  EXPECT_EQ(late->shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(late->rows(), 2);
  EXPECT_EQ(late->row(1)[0], std::byte{4});
  EXPECT_EQ(file->tensors().find("early")->data[1], std::byte{1});
  EXPECT_EQ(file->tensors().find("missing"), nullptr);
  EXPECT_EQ(file->tensors().get("missing").status().code(), Code::kNotFound);
  EXPECT_EQ(file->tensors().in_name_order()[0]->name, "early");
}

Bytes counted(size_t n) {
  Bytes b(n);
  for (size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(i);
  return b;
}

TEST(SafetensorsWriter, RoundTripAndDeterministicOrder) {
  const Bytes data = counted(24);
  const std::span<const std::byte> all(data);
  const TensorView bytes{"a.bytes", DType::kU8, {3}, all.subspan(0, 3)};
  const TensorView wide{"z.wide", DType::kI64, {1, 2}, all.subspan(8, 16)};
  const TensorView none{"n \"quoted\"", DType::kBF16, {0, 4}, {}};
  const TensorView half{"h", DType::kF16, {1}, all.subspan(4, 2)};
  const std::vector<TensorView> one = {bytes, wide, none, half};
  const std::vector<TensorView> other = {half, none, wide, bytes};
  const SafetensorsMetadata metadata = {{"b", "2"}, {"a", "\xc3\xa4"}};
  const Result<Bytes> written = write_safetensors(one, metadata);
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(*written, *write_safetensors(other, metadata));

  const Result<Safetensors> file = Safetensors::parse(*written, "t");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->metadata(), metadata);
  for (const TensorView& t : one) {
    const TensorView* read = file->tensors().find(t.name);
    ASSERT_NE(read, nullptr) << t.name;
    EXPECT_EQ(read->dtype, t.dtype);
    EXPECT_EQ(read->shape, t.shape);
    EXPECT_TRUE(std::equal(read->data.begin(), read->data.end(), t.data.begin(), t.data.end())) << t.name;
    // Data begin 8-byte aligned and go by falling element size, so each tensor is aligned for its type.
    const auto offset = static_cast<size_t>(read->data.data() - written->data());
    if (!read->data.empty()) {
      EXPECT_EQ(offset % dtype_info(t.dtype).block_bytes, 0u) << t.name;
    }
  }
}

TEST(SafetensorsWriter, Refusals) {
  const Bytes data = counted(18);
  const TensorView good{"a", DType::kU8, {18}, data};
  const TensorView blocks{"q", DType::kQ4_0, {32}, data};
  const TensorView short_data{"s", DType::kF32, {5}, data};
  const TensorView reserved{"__metadata__", DType::kU8, {18}, data};
  EXPECT_EQ(write_safetensors(std::vector{blocks}).status().code(), Code::kUnsupported);
  EXPECT_EQ(write_safetensors(std::vector{short_data}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(write_safetensors(std::vector{reserved}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(write_safetensors(std::vector{good, good}).status().code(), Code::kInvalidArgument);
}

TEST(SafetensorsWriter, FileIsTheBuffer) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("isthmus_st_" + random_hex(8));
  const Bytes data = counted(6);
  const std::vector<TensorView> tensors = {{"a", DType::kF16, {3}, data}};
  PosixFs fs;
  ASSERT_TRUE(write_safetensors_file(fs, path, tensors, {{"k", "v"}}).ok());
  EXPECT_EQ(*fs.read_file(path), *write_safetensors(tensors, {{"k", "v"}}));
  Result<Safetensors> file = Safetensors::open(path);
  ASSERT_TRUE(file.ok());
  const Safetensors moved = file.take();
  EXPECT_EQ(moved.tensors().find("a")->data[5], std::byte{5});
  ASSERT_TRUE(fs.remove(path).ok());
  EXPECT_EQ(Safetensors::open(path).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace isthmus
