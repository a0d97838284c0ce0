// SPDX-License-Identifier: Apache-2.0
#include "capture/capture_maker.h"

#include <gtest/gtest.h>

#include "capture/recording_sink.h"
#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

constexpr int kBlock = 48;  // no multiple of the cache's pages

Checkpoint open(const std::filesystem::path& path) {
  auto c = Checkpoint::open(path);
  EXPECT_TRUE(c.ok()) << c.status().to_string();
  return c.take();
}

// A decoder that runs this checkpoint.
DecoderInfo decoder_of(const Checkpoint& c) {
  DecoderInfo d;
  d.url = "http://decoder";
  d.identity = Identity::of({{"projection", projection_digest(c)->hex()}});
  d.layout = native_layout(c.config().layers, c.config().kv_width(), kBlock, DType::kBF16);
  d.projection_pack = std::make_shared<const Bytes>(export_projection(c).take());
  return d;
}

PrefillCall call_of(SourceKind mode, int tokens, int64_t resume_from, int vocab) {
  PrefillCall call;
  call.ids = counted_ids(tokens, vocab, 3);
  call.resume_from = resume_from;
  call.mode = mode;
  return call;
}

Bytes block_of(const PlaneLayout& layout, const Sequence& seq, int64_t first, int64_t last) {
  Bytes out(layout.block_bytes(first, last));
  std::span<std::byte> rest = out;
  for (size_t i = 0; i < layout.planes.size(); ++i) {
    const size_t n = static_cast<size_t>(last - first) * layout.planes[i].row_bytes();
    const KvPlane which = i % 2 == 0 ? KvPlane::kKeys : KvPlane::kValues;
    seq.read_rows(layout.planes[i].layer, which, first, last - first, rest.first(n));
    rest = rest.subspan(n);
  }
  return out;
}

struct Way {
  const char* name;
  SourceKind mode;
  SameProjection same;
};
constexpr Way kWays[] = {{"kv", SourceKind::kKv, SameProjection::kProjectAgain},
                         {"project", SourceKind::kProject, SameProjection::kProjectAgain},
                         {"project, engine rows", SourceKind::kProject, SameProjection::kTakeEngineRows}};

// Captures a prompt of T tokens from row `start` on and compares what was shipped with the cache's own rows.
void expect_own_rows(Model& model, const DecoderInfo& decoder, const Way& way, int64_t resume_from,
                     int64_t start, int64_t chunk) {
  const std::string what =
      std::string(way.name) + " S=" + std::to_string(resume_from) + " chunk=" + std::to_string(chunk);
  const PrefillCall call = call_of(way.mode, 201, resume_from, model.config().vocab);
  CaptureMaker maker(model.config(), *projection_digest(model.checkpoint()), way.same);
  RecordingSink sink;
  auto capture = maker.make(call, decoder, sink);
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  KvPool pool = KvPool::create(model.kv_shape(), 256).take();
  Sequence seq(pool);
  const std::span<const TokenId> ids(call.ids);
  ASSERT_TRUE(model.prompt(ids.first(static_cast<size_t>(start)), seq, nullptr, {}).ok());
  while (seq.length() < 200) {
    const auto n = static_cast<size_t>(std::min(chunk, 200 - seq.length()));
    ASSERT_TRUE(
        model.prompt(ids.subspan(static_cast<size_t>(seq.length()), n), seq, capture->get(), {}).ok());
    ASSERT_TRUE((*capture)->chunk_done(seq.length()).ok());
  }
  ASSERT_TRUE((*capture)->seal().ok());
  EXPECT_EQ(sink.sealed_at, 200) << what;
  EXPECT_EQ((*capture)->shipped_tokens(), 200 - resume_from) << what;
  int64_t expected_first = resume_from;
  for (const RecordingSink::Block& b : sink.blocks) {
    EXPECT_EQ(b.first, expected_first) << what;
    EXPECT_EQ(b.last, std::min<int64_t>(b.first + kBlock, 200)) << what;
    EXPECT_TRUE(b.planes == block_of(decoder.layout, seq, b.first, b.last)) << what << " block " << b.first;
    expected_first = b.last;
  }
  EXPECT_EQ(expected_first, 200) << what;
}

TEST(Capture, ShipsTheCachesOwnBytesInEveryWay) {
  const auto model = load(golden("llama_tiny"));
  ASSERT_NE(model, nullptr);
  const DecoderInfo decoder = decoder_of(model->checkpoint());
  for (const Way& way : kWays) {
    for (const int64_t chunk : {7, 64, 200}) {
      expect_own_rows(*model, decoder, way, 0, 0, chunk);
      expect_own_rows(*model, decoder, way, 2 * kBlock, 0, chunk);
    }
    expect_own_rows(*model, decoder, way, 2 * kBlock, 64, 1);
  }
}

TEST(Capture, ShipsKeysAfterTheirNorm) {
  const auto model = load(golden("qwen3_tiny"));
  ASSERT_NE(model, nullptr);
  const DecoderInfo decoder = decoder_of(model->checkpoint());
  for (const Way& way : kWays) expect_own_rows(*model, decoder, way, 0, 0, 64);
}

TEST(Capture, HasRoomIsTheSinks) {
  const Checkpoint checkpoint = open(golden("llama_tiny"));
  CaptureMaker maker(checkpoint.config(), Digest(), SameProjection::kTakeEngineRows);
  RecordingSink sink;
  auto capture = maker.make(call_of(SourceKind::kKv, 50, 0, 100), decoder_of(checkpoint), sink);
  ASSERT_TRUE(capture.ok());
  EXPECT_TRUE((*capture)->has_room());
  sink.room = false;
  EXPECT_FALSE((*capture)->has_room());
}

TEST(CaptureMaker, RefusesWhatDoesNotFit) {
  const Checkpoint llama = open(golden("llama_tiny"));
  const Checkpoint scaled = open(with_config("llama_tiny", "config_llama3rope.json"));
  const DecoderInfo fits = decoder_of(llama);
  const DecoderInfo other_rope = decoder_of(scaled);

  DecoderInfo swapped = fits;  // the pack's RoPE was changed, the identity was not
  swapped.projection_pack = other_rope.projection_pack;
  DecoderInfo narrow = fits;
  narrow.layout = native_layout(llama.config().layers, 32, kBlock, DType::kBF16);
  DecoderInfo deep = fits;
  deep.layout = native_layout(llama.config().layers + 1, llama.config().kv_width(), kBlock, DType::kBF16);
  DecoderInfo wide = fits;
  wide.layout = native_layout(llama.config().layers, llama.config().kv_width(), kBlock, DType::kF32);
  DecoderInfo no_pack = fits;
  no_pack.projection_pack = nullptr;
  DecoderInfo nameless = fits;
  nameless.identity = Identity::of({{"family", "llama"}});

  const auto project = call_of(SourceKind::kProject, 100, 0, 100);
  const auto kv = call_of(SourceKind::kKv, 100, 0, 100);
  struct Row {
    const char* name;
    const DecoderInfo* decoder;
    PrefillCall call;
    Code code;
    const char* message;
  };
  const Row rows[] = {
      {"native", &fits, call_of(SourceKind::kNative, 100, 0, 100), Code::kInvalidArgument, "mode"},
      {"resume", &fits, call_of(SourceKind::kKv, 100, 50, 100), Code::kInvalidArgument, "resume_from"},
      {"long", &fits, call_of(SourceKind::kKv, 8194, 0, 100), Code::kInvalidArgument, "at most 8193 tokens"},
      {"swapped pack, project", &swapped, project, Code::kMismatch, "projection"},
      {"swapped pack, kv", &swapped, kv, Code::kMismatch, "projection"},
      {"other rope, kv", &other_rope, kv, Code::kMismatch, "rope."},
      {"row_values", &narrow, project, Code::kMismatch, "row_values"},
      {"planes", &deep, project, Code::kMismatch, "planes"},
      {"dtype", &wide, kv, Code::kMismatch, "dtype"},
      {"no pack", &no_pack, project, Code::kNotFound, "projection pack"},
      {"no projection field", &nameless, project, Code::kInvalidArgument, "projection"},
  };
  for (const Row& r : rows) {
    RecordingSink sink;
    CaptureMaker maker(llama.config(), *projection_digest(llama), SameProjection::kTakeEngineRows);
    const auto capture = maker.make(r.call, *r.decoder, sink);
    EXPECT_EQ(capture.status().code(), r.code) << r.name << ": " << capture.status().to_string();
    EXPECT_NE(capture.status().message().find(r.message), std::string::npos)
        << r.name << ": " << capture.status().message();
    EXPECT_TRUE(sink.blocks.empty() && sink.sealed_at == -1) << r.name;
  }
}

TEST(CaptureMaker, NamesTheDimensionThatDiffers) {
  ModelConfig prefill = open(golden("llama_tiny")).config();
  const DecoderInfo decoder = decoder_of(open(golden("llama_tiny")));
  RecordingSink sink;
  const auto refusal = [&](const ModelConfig& c, SourceKind mode) {
    CaptureMaker maker(c, Digest(), SameProjection::kTakeEngineRows);
    return maker.make(call_of(mode, 100, 0, 100), decoder, sink).status().message();
  };
  ModelConfig other = prefill;
  other.width *= 2;
  EXPECT_NE(refusal(other, SourceKind::kProject).find("width: 128 here, 64 there"), std::string::npos);
  EXPECT_EQ(refusal(other, SourceKind::kKv), "");  // K/V rows do not depend on it
  other = prefill;
  other.layers += 1;
  EXPECT_NE(refusal(other, SourceKind::kProject).find("layers"), std::string::npos);
  other = prefill;
  other.kv_heads *= 2;
  EXPECT_NE(refusal(other, SourceKind::kKv).find("kv_heads"), std::string::npos);
  other = prefill;
  other.rope.theta *= 2;
  EXPECT_NE(refusal(other, SourceKind::kKv).find("rope.theta"), std::string::npos);
  EXPECT_EQ(refusal(other, SourceKind::kProject), "");  // the decoder's own rotation is applied
}

TEST(Capture, ProjectsWithTheDecodersRotation) {
  const auto prefill = load(golden("llama_tiny"));
  const auto decoder_model = load(with_config("llama_tiny", "config_llama3rope.json"));
  ASSERT_TRUE(prefill != nullptr && decoder_model != nullptr);
  const DecoderInfo decoder = decoder_of(decoder_model->checkpoint());
  CaptureMaker maker(prefill->config(), *projection_digest(prefill->checkpoint()),
                     SameProjection::kTakeEngineRows);
  const PrefillCall call = call_of(SourceKind::kProject, kBlock + 1, 0, prefill->config().vocab);
  RecordingSink sink;
  auto capture = maker.make(call, decoder, sink);
  ASSERT_TRUE(capture.ok()) << capture.status().to_string();
  KvPool pool = KvPool::create(prefill->kv_shape(), 64).take();
  Sequence seq(pool);
  ASSERT_TRUE(prefill->prompt(std::span(call.ids).first(kBlock), seq, capture->get(), {}).ok());
  ASSERT_TRUE((*capture)->chunk_done(kBlock).ok());
  KvPool own_pool = KvPool::create(decoder_model->kv_shape(), 64).take();
  Sequence own(own_pool);
  ASSERT_TRUE(decoder_model->prompt(std::span(call.ids).first(kBlock), own, nullptr, {}).ok());
  // Layer 0 sees the embeddings, which both models share: its rows are the decoder's own, not the engine's.
  const size_t layer0 = 2 * kBlock * decoder.layout.planes[0].row_bytes();
  ASSERT_EQ(sink.blocks.size(), 1u);
  const auto first_layer = [&](const Bytes& b) {
    return Bytes(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(layer0));
  };
  const Bytes shipped = first_layer(sink.blocks[0].planes);
  EXPECT_TRUE(shipped == first_layer(block_of(decoder.layout, own, 0, kBlock)));
  EXPECT_FALSE(shipped == first_layer(block_of(decoder.layout, seq, 0, kBlock)));
}

}  // namespace
}  // namespace isthmus
