// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "base/bytes.h"
#include "base/float16.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/json.h"

namespace isthmus {
namespace {

TEST(Float16, EveryHalfRoundTrips) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const f16 h{static_cast<uint16_t>(i)};
    const float f = to_float(h);
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(to_float(to_f16(f))));
    } else {
      ASSERT_EQ(to_f16(f).bits, h.bits) << i;
    }
    const bf16 b{static_cast<uint16_t>(i)};
    if (!std::isnan(to_float(b))) {
      ASSERT_EQ(to_bf16(to_float(b)).bits, b.bits) << i;
    }
  }
}

TEST(Float16, RoundsToNearestEven) {
  struct Row {
    float in;
    uint16_t half;
  } rows[] = {
      {1.0f, 0x3c00},
      {65504.0f, 0x7bff},
      {65519.0f, 0x7bff},
      {65520.0f, 0x7c00},
      {0x1p-24f, 1},
      {0x1p-25f, 0},
      {0x1.8p-24f, 2},
      {-0x1p-24f, 0x8001},
      {1.0f + 0x1p-11f, 0x3c00},
      {1.0f + 0x1.8p-10f, 0x3c02},
  };
  for (const Row& r : rows) EXPECT_EQ(to_f16(r.in).bits, r.half) << r.in;
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(1.0f + 0x1.8p-7f).bits, 0x3f82);
}

TEST(Hash, KnownVectors) {
  EXPECT_EQ(sha256("abc").hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hmac_sha256("Jefe", as_byte_span("what do ya want for nothing?")).hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex64(xxh3_64({})), "2d06800538d394c2");
  EXPECT_EQ(Digest::from_hex(sha256("x").hex()), sha256("x"));
  EXPECT_FALSE(Digest::from_hex(std::string(64, 'G')).has_value());
  EXPECT_FALSE(Digest::from_hex("ab").has_value());
}

TEST(Bytes, ReaderStopsAtTheEnd) {
  ByteWriter w;
  w.write<uint32_t>(7);
  w.append("abc");
  ByteReader r(w.bytes());
  EXPECT_EQ(r.read<uint32_t>(), 7u);
  EXPECT_EQ(r.take(3).size(), 3u);
  EXPECT_TRUE(r.ok());
  EXPECT_EQ(r.read<uint8_t>(), 0);
  EXPECT_FALSE(r.ok());
}

TEST(Json, RejectsBadTextWithTheByte) {
  for (const char* bad : {"", "{", "[1,]", "{\"a\":1}x", "nan"}) {
    const auto r = parse_json(bad, "body");
    ASSERT_FALSE(r.ok()) << bad;
    EXPECT_NE(r.status().message().find("body: not JSON"), std::string::npos);
  }
  EXPECT_FALSE(parse_json(std::string("{}\0junk", 7), "body").ok());
  std::string many = "{";
  for (int i = 0; i < 9000; ++i) many += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
  many += "}";
  EXPECT_NE(parse_json(many, "body").status().message().find("more than 8192 keys"), std::string::npos);
  EXPECT_TRUE(parse_json_sorted(many, "body").ok());
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_FALSE(parse_json(deep, "body").ok());
}

TEST(Json, BoundsWhatAParsedTextTakes) {
  const auto list = [](int64_t count, const std::string& value) {
    std::string text = "[" + value;
    for (int64_t i = 1; i < count; ++i) text += "," + value;
    return text + "]";
  };
  EXPECT_TRUE(parse_json(list(kMaxJsonValues, "1"), "t").ok());
  EXPECT_EQ(parse_json(list(kMaxJsonValues + 1, "1"), "t").status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(parse_json(list(kMaxJsonContainers - 1, "[]"), "t").ok());
  EXPECT_EQ(parse_json(list(kMaxJsonContainers, "[]"), "t").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(parse_json(list(kMaxJsonContainers, "{}"), "t").status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(parse_json_sorted(list(kMaxJsonContainers + 1, "[]"), "t").ok());
}

TEST(Fs, TextFilesAreReadUpToTheLimit) {
  const auto path = std::filesystem::path(testing::TempDir()) / "isthmus_text";
  std::ofstream(path) << std::string(200'000, 'x');
  EXPECT_EQ(read_text_file(path, 200'000).take().size(), 200'000u);
  EXPECT_EQ(read_text_file(path, 199'999).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(read_text_file("/dev/zero", 1 << 20).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(read_text_file(path.parent_path(), 10).status().code(), Code::kIo);
  EXPECT_EQ(read_text_file("/nonexistent/file", 10).status().code(), Code::kNotFound);
}

TEST(Json, FieldsNameThemselves) {
  const Json j = *parse_json(R"({"n": 3, "f": 2.5, "big": 18446744073709551615, "s": "x", "z": null})", "t");
  EXPECT_EQ(*get_int(j, "n", "t"), 3);
  EXPECT_FALSE(find_int(j, "f", "t").ok());
  EXPECT_FALSE(find_int(j, "big", "t").ok());
  EXPECT_FALSE(find_int(j, "z", "t")->has_value());
  EXPECT_EQ(get_string(j, "missing", "t").status().message(), "t: field 'missing' is missing");
  EXPECT_EQ(get_string(j, "n", "t").status().message(), "t: field 'n': expected a string, got number");
}

TEST(Json, CanonicalSortsAtEveryLevel) {
  EXPECT_EQ(dump_canonical(*parse_json(R"({"b":{"y":1,"x":2},"a":"é"})", "t")),
            R"({"a":"\u00e9","b":{"x":2,"y":1}})");
}

TEST(Fs, DurableWriteIsWholeAndReplaces) {
  const auto dir = std::filesystem::temp_directory_path() / ("isthmus-base-" + random_hex(6));
  ASSERT_TRUE(make_directories(dir).ok());
  PosixFs fs;
  const std::span<const std::byte> parts[] = {as_byte_span("hello "), as_byte_span("world")};
  ASSERT_TRUE(write_file_durably(fs, dir / "f", parts).ok());
  EXPECT_EQ(*read_text_file(dir / "f", 100), "hello world");
  EXPECT_FALSE(std::filesystem::exists(dir / "f.tmp"));
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(write_file_durably(fs, dir / "pipe", parts).code(), Code::kInvalidArgument);
  EXPECT_EQ(NewFile::create(dir / "pipe").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(write_file_durably(fs, dir, parts).code(), Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_fifo(dir / "pipe"));
  EXPECT_EQ(read_text_file(dir / "f", 5).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(fs.read_file(dir / "none").status().code(), Code::kNotFound);
  {
    const auto lock = FileLock::acquire(dir / "lock");
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(FileLock::acquire(dir / "lock").status().code(), Code::kUnavailable);
  }
  EXPECT_TRUE(FileLock::acquire(dir / "lock").ok());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace isthmus
