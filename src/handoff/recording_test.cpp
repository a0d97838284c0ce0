// SPDX-License-Identifier: Apache-2.0
// Recordings: the sender's bytes equal a golden file that was made from the format's description alone, the
// reader takes it, and names every damage.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/fs.h"
#include "base/test_data.h"
#include "handoff/handoff_test_util.h"
#include "handoff/recording.h"

namespace isthmus {
namespace {

using namespace handoff_test;
namespace stdfs = std::filesystem;

constexpr int64_t kGoldenTokens = 20;

Bytes read_bytes(const stdfs::path& path) {
  PosixFs fs;
  auto bytes = fs.read_file(path);
  EXPECT_TRUE(bytes.ok()) << bytes.status().to_string();
  return bytes.ok() ? bytes.take() : Bytes();
}

Bytes golden() {
  return read_bytes(test_data("handoff/v1.ish"));
}

struct Folder {
  explicit Folder(const char* name) : path(stdfs::path(testing::TempDir()) / (name + random_hex(8))) {}
  ~Folder() {
    std::error_code ignored;
    stdfs::remove_all(path, ignored);
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(stdfs::directory_iterator(path), stdfs::directory_iterator()));
  }
  stdfs::path recording(const TransferSpec& spec) const { return path / (spec.id + ".ish"); }
  const stdfs::path path;
};

// Sends all of a transfer with a recorder that may use `max_bytes`.
Status send_recorded(const Folder& folder, const TransferSpec& spec, uint64_t max_bytes) {
  Pair p;
  const auto recorder = Recorder::create(folder.path, max_bytes).take();
  p.options.recorder = recorder.get();
  auto in = p.expect(spec);
  auto out = p.open(spec);
  EXPECT_TRUE(out.ok()) << out.status().to_string();
  return send_all(**out, spec);
}

TEST(Recording, TheSenderWritesTheGoldenFile) {
  const Folder folder("golden");
  const TransferSpec spec = spec_for(kGoldenTokens);
  ASSERT_TRUE(send_recorded(folder, spec, 1 << 20).ok());
  EXPECT_EQ(read_bytes(folder.recording(spec)), golden());
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Recording, TheReaderTakesTheGoldenFile) {
  const Recording r = read_recording(golden());
  ASSERT_TRUE(r.damage.ok()) << r.damage.to_string();
  EXPECT_TRUE(r.sealed);
  ASSERT_TRUE(r.opened.has_value());
  EXPECT_EQ(open_json(*r.opened), open_json(spec_for(kGoldenTokens)));
  EXPECT_EQ(r.frames.size(), 5u);  // OPEN, two blocks, the tail, SEAL
  EXPECT_EQ(r.taken_to, kGoldenTokens - 1);
  EXPECT_EQ(r.plane_bytes, total_plane_bytes(*r.opened));
}

TEST(Recording, EveryFlippedByteIsNamed) {
  const Bytes whole = golden();
  const Recording good = read_recording(whole);
  for (size_t at = 0; at < whole.size(); ++at) {
    Bytes bad = whole;
    bad[at] ^= std::byte{0x20};
    const Recording r = read_recording(bad);
    ASSERT_FALSE(r.damage.ok()) << at;
    EXPECT_FALSE(r.sealed) << at;
    // The damaged frame's offset: the last frame that begins at or before the byte.
    uint64_t offset = 0;
    for (const RecordedFrame& f : good.frames) {
      if (f.offset <= at) offset = f.offset;
    }
    EXPECT_EQ(r.damage_offset, offset) << at << ": " << r.damage.to_string();
  }
}

TEST(Recording, AShorterFileIsACutTransferOrDamaged) {
  const Bytes whole = golden();
  const Recording good = read_recording(whole);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Recording r = read_recording(std::span(whole).first(size));
    const bool between_frames = std::any_of(good.frames.begin() + 1, good.frames.end(),
                                            [size](const RecordedFrame& f) { return f.offset == size; });
    EXPECT_EQ(r.damage.ok(), between_frames) << size;
    EXPECT_FALSE(r.sealed) << size;
  }
  Bytes longer = whole;
  longer.push_back(std::byte{0});
  EXPECT_NE(read_recording(longer).damage.message().find("1 more bytes"), std::string::npos);
}

// Frames with right checksums whose order or claims are wrong.
TEST(Recording, NamesWhatIsExpected) {
  const TransferSpec spec = spec_for(kGoldenTokens);
  const Bytes first = payload_of(spec.layout, 0, 8, block_bytes(spec.layout, 0, 8));
  struct Row {
    const char* name;
    FrameType type;
    Json json;
    const Bytes* payload;
    const char* message;
  };
  const Bytes none;
  TransferSpec beyond = spec;
  beyond.last = spec.prompt_tokens;
  const Row rows[] = {
      {"second block first", FrameType::kRows, rows_json({8, 16, 0, 6}), &first,
       "expected [0, 8) from plane 0"},
      {"seal too early",
       FrameType::kSeal,
       {{"last", 19}, {"frames", 1}, {"bytes", 0}, {"digest", "0"}},
       &none,
       "received rows to 0 in 1 frames"},
      {"an ACK", FrameType::kAck, {{"landed", 0}}, &none, "got ACK"},
      {"OPEN again", FrameType::kOpen, open_json(spec), &none, "got OPEN"},
  };
  for (const Row& r : rows) {
    ByteWriter w;
    w.append(std::span<const std::byte>(frame_head(FrameType::kOpen, 0, open_json(spec), {}).bytes));
    const ConstBytes parts[] = {*r.payload};
    w.append(std::span<const std::byte>(frame_head(r.type, 1, r.json, parts).bytes));
    w.append(std::span<const std::byte>(*r.payload));
    const Recording read = read_recording(w.bytes());
    EXPECT_NE(read.damage.message().find(r.message), std::string::npos)
        << r.name << ": " << read.damage.to_string();
    EXPECT_EQ(read.frames.size(), 1u) << r.name;
  }
  const Recording read = read_recording(frame_head(FrameType::kOpen, 0, open_json(beyond), {}).bytes);
  EXPECT_NE(read.damage.message().find("rows [0, 20) of 20 tokens"), std::string::npos)
      << read.damage.to_string();
}

TEST(Recording, AnAbortedTransferSaysWhy) {
  const Folder folder("aborted");
  const TransferSpec spec = spec_for(kGoldenTokens);
  {
    Pair p;
    const auto recorder = Recorder::create(folder.path, 1 << 20).take();
    p.options.recorder = recorder.get();
    auto in = p.expect(spec);
    auto out = p.open(spec);
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(folder.files(), 1u);
    EXPECT_FALSE(stdfs::exists(folder.recording(spec)));  // not before its end
    (*out)->abort(Status(Code::kCancelled, "nobody waits"));
  }
  const Recording r = read_recording(read_bytes(folder.recording(spec)));
  EXPECT_TRUE(r.damage.ok()) << r.damage.to_string();
  EXPECT_NE(r.aborted.message().find("nobody waits"), std::string::npos);
}

TEST(Recording, TheFolderIsBoundedAndTransfersGoOn) {
  const Folder folder("bounded");
  TransferSpec spec = spec_for(kGoldenTokens);
  ASSERT_TRUE(send_recorded(folder, spec, 1 << 20).ok());
  const uint64_t used = stdfs::file_size(folder.recording(spec));
  spec.id = std::string(32, 'a');
  EXPECT_TRUE(send_recorded(folder, spec, used).ok());  // sent, not recorded
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_TRUE(send_recorded(folder, spec, 1 << 20).ok());
  EXPECT_EQ(folder.files(), 2u);
}

// A transfer's reservation is its largest size; what it did not need is there for the next one.
TEST(Recording, WhatATransferDidNotWriteIsFreeAgain) {
  const Folder folder("given_back");
  TransferSpec spec = spec_for(kGoldenTokens);
  const auto recorder = Recorder::create(folder.path, 200 << 10).take();  // room for one reservation
  for (const char digit : {'1', '2', '3', '4'}) {
    spec.id = std::string(32, digit);
    Pair p;
    p.options.recorder = recorder.get();
    auto in = p.expect(spec);
    auto out = p.open(spec);
    ASSERT_TRUE(out.ok());
    (*out)->abort(Status(Code::kCancelled, "nobody waits"));
    out->reset();
    EXPECT_TRUE(stdfs::exists(folder.recording(spec))) << digit;
  }
}

TEST(Recording, OnlyRecordingsCountAndUnfinishedOnesGo) {
  const Folder folder("leftovers");
  stdfs::create_directories(folder.path / "sub.ish");
  std::ofstream(folder.path / "dead.ish.tmp") << std::string(1 << 20, 'x');
  std::ofstream(folder.path / "notes.txt") << std::string(1 << 20, 'x');
  const TransferSpec spec = spec_for(kGoldenTokens);
  ASSERT_TRUE(send_recorded(folder, spec, 1 << 20).ok());
  EXPECT_TRUE(stdfs::exists(folder.recording(spec)));
  EXPECT_FALSE(stdfs::exists(folder.path / "dead.ish.tmp"));
  EXPECT_TRUE(stdfs::exists(folder.path / "notes.txt"));
}

}  // namespace
}  // namespace isthmus
