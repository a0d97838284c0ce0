// SPDX-License-Identifier: Apache-2.0
// Files built byte by byte: what is read, and what is refused with which words.
#include "tensor/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"

namespace isthmus {
namespace {

// Appends the format's parts one by one, right or wrong.
class Builder {
 public:
  Builder& header(uint32_t version, uint64_t tensors, uint64_t keys) {
    w_.append("GGUF");
    w_.write(version);
    w_.write(tensors);
    w_.write(keys);
    return *this;
  }
  Builder& text(std::string_view s) {
    w_.write<uint64_t>(s.size());
    w_.append(s);
    return *this;
  }
  template <typename T>
  Builder& put(T v) {
    w_.write(v);
    return *this;
  }
  Builder& key(std::string_view name, uint32_t type) { return text(name).put<uint32_t>(type); }
  Builder& tensor(std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
    text(name).put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims) put(d);
    return put(type).put(offset);
  }
  Builder& data(size_t n, size_t alignment = 32) {
    w_.pad_to(alignment);
    for (size_t i = 0; i < n; ++i) put(static_cast<uint8_t>(i));
    return *this;
  }
  Builder& zeros(size_t n) {
    w_.append(Bytes(n));
    return *this;
  }
  Bytes bytes() const { return w_.bytes(); }

 private:
  ByteWriter w_;
};

enum : uint32_t { kU8 = 0, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
constexpr uint64_t kHuge = uint64_t{1} << 63;

struct Case {
  const char* what;
  std::function<void(Builder&)> build;
  Code code;             // kOk: accepted
  const char* expected;  // a part of the message
};

const Case kHeaderCases[] = {
    {"empty file", [](Builder&) {}, Code::kCorrupt, "no magic"},
    {"other magic", [](Builder& b) { b.put<uint32_t>(0x46554748).zeros(20); }, Code::kCorrupt, "no magic"},
    {"only magic", [](Builder& b) { b.put<uint32_t>(0x46554747); }, Code::kCorrupt, "ends inside the header"},
    {"version 3, nothing in it", [](Builder& b) { b.header(3, 0, 0); }, Code::kOk, ""},
    {"version 2", [](Builder& b) { b.header(2, 0, 0); }, Code::kOk, ""},
    {"version 1", [](Builder& b) { b.header(1, 0, 0); }, Code::kUnsupported, "got 1"},
    {"version 4", [](Builder& b) { b.header(4, 0, 0); }, Code::kUnsupported, "got 4"},
    {"big endian", [](Builder& b) { b.header(0x03000000, 0, 0); }, Code::kUnsupported, "big-endian"},
    {"2^63 keys", [](Builder& b) { b.header(3, 0, kHuge); }, Code::kCorrupt, "metadata keys do not fit"},
    {"2^63 tensors", [](Builder& b) { b.header(3, kHuge, 0); }, Code::kCorrupt, "tensors do not fit"},
    {"a key too many", [](Builder& b) { b.header(3, 0, 2).key("a.long.enough.key", kU64).put<uint64_t>(1); },
     Code::kCorrupt, "ends inside metadata key 1"},
};

const Case kKeyCases[] = {
    {"u8", [](Builder& b) { b.header(3, 0, 1).key("k", kU8).put<uint8_t>(1); }, Code::kOk, ""},
    {"empty string", [](Builder& b) { b.header(3, 0, 1).key("k", kString).text(""); }, Code::kOk, ""},
    {"empty array",
     [](Builder& b) { b.header(3, 0, 1).key("k", kArray).put<uint32_t>(kString).put<uint64_t>(0); },
     Code::kOk, ""},
    {"empty key", [](Builder& b) { b.header(3, 0, 1).key("", kU8).put<uint8_t>(1).zeros(8); }, Code::kCorrupt,
     "empty name"},
    {"key length 2^63", [](Builder& b) { b.header(3, 0, 1).put(kHuge).zeros(16); }, Code::kCorrupt,
     "name of 9223372036854775808"},
    {"key past the end", [](Builder& b) { b.header(3, 0, 1).put<uint64_t>(100).zeros(16); }, Code::kCorrupt,
     "ends inside"},
    {"key of 65,536 bytes",
     [](Builder& b) { b.header(3, 0, 1).key(std::string(65536, 'k'), kU8).put<uint8_t>(1); }, Code::kCorrupt,
     "limit 65535"},
    {"unknown type", [](Builder& b) { b.header(3, 0, 1).key("k", 13).zeros(8); }, Code::kUnsupported,
     "unknown value type 13"},
    {"huge type", [](Builder& b) { b.header(3, 0, 1).key("k", 0xffffffff).zeros(8); }, Code::kUnsupported,
     "unknown value type"},
    {"unknown element type",
     [](Builder& b) { b.header(3, 0, 1).key("k", kArray).put<uint32_t>(99).put<uint64_t>(0); },
     Code::kUnsupported, "unknown value type 99"},
    {"array of arrays",
     [](Builder& b) { b.header(3, 0, 1).key("k", kArray).put<uint32_t>(kArray).put<uint64_t>(0); },
     Code::kUnsupported, "array of arrays"},
    {"scalar cut", [](Builder& b) { b.header(3, 0, 1).key("k", kU64).zeros(7); }, Code::kCorrupt,
     "do not fit"},
    {"string cut", [](Builder& b) { b.header(3, 0, 1).key("k", kString).put<uint64_t>(9).zeros(8); },
     Code::kCorrupt, "ends inside key 'k'"},
    {"string of 2^63", [](Builder& b) { b.header(3, 0, 1).key("k", kString).put(kHuge).zeros(8); },
     Code::kCorrupt, "ends inside"},
    {"array of 2^62 i32 (bytes wrap to 0)",
     [](Builder& b) { b.header(3, 0, 1).key("k", kArray).put<uint32_t>(kI32).put(kHuge / 2).zeros(8); },
     Code::kCorrupt, "elements of 'k' do not fit"},
    {"array of 2^61 strings",
     [](Builder& b) { b.header(3, 0, 1).key("k", kArray).put<uint32_t>(kString).put(kHuge / 4).zeros(8); },
     Code::kCorrupt, "do not fit"},
    {"string in array cut",
     [](Builder& b) {
       b.header(3, 0, 1)
           .key("k", kArray)
           .put<uint32_t>(kString)
           .put<uint64_t>(2)
           .text("a")
           .put<uint64_t>(5)
           .zeros(4);
     },
     Code::kCorrupt, "ends inside key 'k'"},
    {"bool 2", [](Builder& b) { b.header(3, 0, 1).key("k", kBool).put<uint8_t>(2); }, Code::kCorrupt,
     "neither 0 nor 1"},
    {"bool 2 in array",
     [](Builder& b) {
       b.header(3, 0, 1).key("k", kArray).put<uint32_t>(kBool).put<uint64_t>(2).put<uint16_t>(0x0201);
     },
     Code::kCorrupt, "neither 0 nor 1"},
    {"key twice",
     [](Builder& b) { b.header(3, 0, 2).key("k", kU8).put<uint8_t>(1).key("k", kI8).put<uint8_t>(1); },
     Code::kCorrupt, "'k' appears twice"},
    {"alignment 64", [](Builder& b) { b.header(3, 0, 1).key("general.alignment", kU32).put<uint32_t>(64); },
     Code::kOk, ""},
    {"alignment 0", [](Builder& b) { b.header(3, 0, 1).key("general.alignment", kU32).put<uint32_t>(0); },
     Code::kCorrupt, "got 0"},
    {"alignment 48", [](Builder& b) { b.header(3, 0, 1).key("general.alignment", kU32).put<uint32_t>(48); },
     Code::kCorrupt, "got 48"},
    {"alignment 2^31",
     [](Builder& b) { b.header(3, 0, 1).key("general.alignment", kU32).put<uint32_t>(1u << 31); },
     Code::kCorrupt, "power of two"},
    {"alignment is text", [](Builder& b) { b.header(3, 0, 1).key("general.alignment", kString).text("32"); },
     Code::kCorrupt, "'general.alignment': expected an integer"},
};

const Case kTensorCases[] = {
    {"f32 [2, 3]",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {3, 2}, 0, 0).data(24);
     },
     Code::kOk, ""},
    {"two with a gap",
     [](Builder& b) { b.header(3, 2, 0).tensor("t", {1}, 0, 0).tensor("u", {1}, 0, 64).data(68); }, Code::kOk,
     ""},
    {"second one first",
     [](Builder& b) { b.header(3, 2, 0).tensor("t", {1}, 0, 32).tensor("u", {1}, 0, 0).data(36); }, Code::kOk,
     ""},
    {"alignment 8",
     [](Builder& b) {
       b.header(3, 2, 1)
           .key("general.alignment", kU32)
           .put<uint32_t>(8)
           .tensor("t", {2}, 0, 0)
           .tensor("u", {1}, 0, 8)
           .data(12, 8);
     },
     Code::kOk, ""},
    {"q4_1 block", [](Builder& b) { b.header(3, 1, 0).tensor("t", {32}, 3, 0).data(20); }, Code::kOk, ""},
    {"part of a block", [](Builder& b) { b.header(3, 1, 0).tensor("t", {31}, 3, 0).data(20); },
     Code::kCorrupt, "multiple of 32"},
    {"rows of part blocks",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {16, 2}, 3, 0).data(20);
     },
     Code::kCorrupt, "multiple of 32"},
    {"iq2_xs", [](Builder& b) { b.header(3, 1, 0).tensor("blk.0.x", {256}, 17, 0).data(74); },
     Code::kUnsupported, "tensor 'blk.0.x' has type iq2_xs (17)"},
    {"removed type 4", [](Builder& b) { b.header(3, 1, 0).tensor("t", {32}, 4, 0).data(64); },
     Code::kUnsupported, "unknown (4)"},
    {"type 2^32 - 1", [](Builder& b) { b.header(3, 1, 0).tensor("t", {32}, 0xffffffff, 0).data(64); },
     Code::kUnsupported, "unknown"},
    {"no dimensions", [](Builder& b) { b.header(3, 1, 0).tensor("t", {}, 0, 0).data(40); }, Code::kCorrupt,
     "0 dimensions"},
    {"five dimensions",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).data(4);
     },
     Code::kCorrupt, "5 dimensions"},
    {"2^32 - 1 dimensions",
     [](Builder& b) { b.header(3, 1, 0).text("t").put<uint32_t>(0xffffffff).zeros(64); }, Code::kCorrupt,
     "4294967295 dimensions"},
    {"dimension 0",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {0, 4}, 0, 0).data(4);
     },
     Code::kCorrupt, "dimension of 0"},
    {"dimension 2^63", [](Builder& b) { b.header(3, 1, 0).tensor("t", {kHuge}, 0, 0).data(4); },
     Code::kCorrupt, "dimension of 9223"},
    {"product 2^64",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0).data(4);
     },
     Code::kCorrupt, "more than 2^63 elements"},
    {"product 2^63 - small, bytes over",
     [](Builder& b) { b.header(3, 1, 0).tensor("t", {uint64_t{1} << 62}, 0, 0).data(4); }, Code::kCorrupt,
     "more than 2^63 bytes"},
    {"past the end",
     [](Builder& b) {
       b.header(3, 1, 0).tensor("t", {3, 2}, 0, 0).data(23);
     },
     Code::kCorrupt, "needs bytes [0, +24) of 23"},
    {"offset past the end", [](Builder& b) { b.header(3, 1, 0).tensor("t", {1}, 0, 64).data(32); },
     Code::kCorrupt, "of 32 in the file"},
    {"offset + size wraps",
     [](Builder& b) { b.header(3, 1, 0).tensor("t", {64}, 0, UINT64_MAX - 31).data(32); }, Code::kCorrupt,
     "in the file"},
    {"no data at all", [](Builder& b) { b.header(3, 1, 0).tensor("t", {1}, 0, 0); }, Code::kCorrupt,
     "of 0 in the file"},
    {"crooked offset", [](Builder& b) { b.header(3, 1, 0).tensor("t", {1}, 0, 4).data(32); }, Code::kCorrupt,
     "not a multiple of 32"},
    {"overlap", [](Builder& b) { b.header(3, 2, 0).tensor("t", {9}, 0, 0).tensor("u", {1}, 0, 32).data(64); },
     Code::kCorrupt, "'t' and 'u' overlap"},
    {"same place",
     [](Builder& b) { b.header(3, 2, 0).tensor("t", {1}, 0, 0).tensor("u", {1}, 0, 0).data(64); },
     Code::kCorrupt, "overlap"},
    {"same name",
     [](Builder& b) { b.header(3, 2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).data(64); },
     Code::kCorrupt, "two tensors are named 't'"},
    {"table cut",
     [](Builder& b) {
       b.header(3, 1, 0).text("t").put<uint32_t>(3).put<uint64_t>(1).put<uint64_t>(1).zeros(7);
     },
     Code::kCorrupt, "ends inside tensor 't'"},
};

void check_table(std::span<const Case> cases) {
  for (const Case& c : cases) {
    Builder builder;
    c.build(builder);
    const Bytes bytes = builder.bytes();
    const Result<GgufFile> file = GgufFile::parse(bytes, "t.gguf");
    EXPECT_EQ(file.status().code(), c.code) << c.what << ": " << file.status().message();
    EXPECT_NE(file.status().message().find(c.expected), std::string::npos)
        << c.what << ": " << file.status().message();
  }
}

TEST(Gguf, HeaderTable) {
  check_table(kHeaderCases);
}
TEST(Gguf, MetadataTable) {
  check_table(kKeyCases);
}
TEST(Gguf, TensorTable) {
  check_table(kTensorCases);
}

Bytes sample() {
  Builder b;
  b.header(3, 2, 11).key("u8", kU8).put<uint8_t>(200).key("i16", kI16).put<int16_t>(-5);
  b.key("u64", kU64).put<uint64_t>(UINT64_MAX).key("i64", kI64).put<int64_t>(-7000000000);
  b.key("f32", kF32).put(1.5f).key("f64", kF64).put(1e300).key("bool", kBool).put<uint8_t>(1);
  b.key("string", kString)
      .text("h\xc3\xa9")
      .key("strings", kArray)
      .put<uint32_t>(kString)
      .put<uint64_t>(3)
      .text("a")
      .text("")
      .text("bcd");
  b.key("ints", kArray).put<uint32_t>(kU8).put<uint64_t>(2).put<uint8_t>(1).put<uint8_t>(255);
  b.key("floats", kArray).put<uint32_t>(kF32).put<uint64_t>(2).put(-1.0f).put(2.0f);
  b.tensor("t", {4, 2}, 24, 0).tensor("u", {1}, 0, 32).data(36);
  return b.bytes();
}

TEST(Gguf, EveryTruncationIsRefusedOrKeepsWhatItHas) {
  const Bytes whole = sample();
  for (size_t n = 0; n < whole.size(); ++n) {
    const Bytes cut(
        whole.begin(),
        whole.begin() + static_cast<int64_t>(n));  // its own buffer, so that ASan sees a read past it
    EXPECT_EQ(GgufFile::parse(cut, "t").status().code(), Code::kCorrupt) << n;
  }
}

TEST(Gguf, TypedAccess) {
  const Bytes bytes = sample();
  const Result<GgufFile> file = GgufFile::parse(bytes, "t.gguf");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file->get_u32("u8"), 200u);
  EXPECT_EQ(*file->get_i64("i16"), -5);
  EXPECT_EQ(*file->get_i64("i64"), -7000000000);
  EXPECT_EQ(*file->get_f32("f32"), 1.5f);
  EXPECT_TRUE(*file->get_bool("bool"));
  EXPECT_EQ(*file->get_string("string"), "h\xc3\xa9");
  EXPECT_EQ(*file->get_string_array("strings"), (std::vector<std::string_view>{"a", "", "bcd"}));
  EXPECT_EQ(*file->get_i32_array("ints"), (std::vector<int32_t>{1, 255}));
  EXPECT_EQ(*file->get_f32_array("floats"), (std::vector<float>{-1.0f, 2.0f}));
  EXPECT_EQ(**file->find_u32("u8"), 200u);
  EXPECT_FALSE(file->find_u32("none")->has_value());
  EXPECT_FALSE(file->find_string("none")->has_value());

  struct Refusal {
    Status status;
    Code code;
    const char* expected;
  };
  const Refusal refusals[] = {
      {file->get_u32("none").status(), Code::kNotFound, "t.gguf: no metadata key 'none'"},
      {file->get_u32("i16").status(), Code::kCorrupt, "'i16': expected an integer within u32, got i16"},
      {file->get_u32("i64").status(), Code::kCorrupt, "within u32"},
      {file->get_i64("u64").status(), Code::kCorrupt, "within 64 bits, got u64"},
      {file->get_u32("ints").status(), Code::kCorrupt, "got array of 2 u8"},
      {file->get_u32("string").status(), Code::kCorrupt, "got string"},
      {file->get_f32("f64").status(), Code::kCorrupt, "within f32, got f64"},
      {file->get_f32("u8").status(), Code::kCorrupt, "got u8"},
      {file->get_bool("u8").status(), Code::kCorrupt, "expected bool"},
      {file->get_string("strings").status(), Code::kCorrupt, "expected string"},
      {file->get_string_array("string").status(), Code::kCorrupt, "expected array of strings"},
      {file->get_i32_array("strings").status(), Code::kCorrupt, "array of integers"},
      {file->get_i32_array("floats").status(), Code::kCorrupt, "array of integers"},
      {file->get_f32_array("ints").status(), Code::kCorrupt, "array of numbers"},
      {file->find_u32("string").status(), Code::kCorrupt, "'string'"},
  };
  for (const Refusal& r : refusals) {
    EXPECT_EQ(r.status.code(), r.code) << r.status.message();
    EXPECT_NE(r.status.message().find(r.expected), std::string::npos) << r.status.message();
  }
}

TEST(Gguf, TensorsAreRowMajorViews) {
  const Bytes bytes = sample();
  const Result<GgufFile> file = GgufFile::parse(bytes, "t.gguf");
  ASSERT_TRUE(file.ok());
  const TensorView* t = file->tensors().find("t");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->dtype, DType::kI8);
  EXPECT_EQ(t->shape, (std::vector<int64_t>{2, 4}));  // the file has the innermost dimension first
  EXPECT_EQ(t->row(1)[0], std::byte{4});
  EXPECT_EQ(file->tensors().find("u")->data[3], std::byte{35});
}

TEST(Gguf, MessagesAreSafeToPrint) {
  Builder b;
  b.header(3, 1, 0).tensor("a\n\x1b[31m" + std::string(1000, 'x'), {1}, 99, 0).data(4);
  const Bytes bytes = b.bytes();
  const std::string message = GgufFile::parse(bytes, "t").status().message();
  EXPECT_LT(message.size(), 200u);
  EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; }))
      << message;
}

TEST(TensorBytes, Table) {
  struct Shape {
    DType dtype;
    std::vector<int64_t> shape;
    int64_t bytes;  // -1: refused
  };
  constexpr int64_t kMax = INT64_MAX;
  for (const Shape& c : {Shape{DType::kF32, {}, 4},
                         {DType::kF32, {2, 3}, 24},
                         {DType::kF32, {2, 0}, 0},
                         {DType::kQ4_0, {2, 64}, 72},
                         {DType::kQ6_K, {256}, 210},
                         {DType::kQ4_0, {}, -1},
                         {DType::kQ4_0, {64, 2}, -1},
                         {DType::kQ4_0, {0, 16}, -1},
                         {DType::kU8, {kMax}, kMax},
                         {DType::kU8, {kMax, 2}, -1},
                         {DType::kF16, {kMax}, -1},
                         {DType::kU8, {-1}, -1},
                         {DType::kU8, {0, kMax, 4}, -1}}) {
    const Result<size_t> bytes = tensor_bytes(c.dtype, c.shape);
    EXPECT_EQ(bytes.ok() ? static_cast<int64_t>(*bytes) : -1, c.bytes) << shape_text(c.shape);
  }
}

}  // namespace
}  // namespace isthmus
