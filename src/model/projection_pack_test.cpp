// SPDX-License-Identifier: Apache-2.0
#include "model/projection_pack.h"

#include <gtest/gtest.h>

#include <fstream>

#include "model/test_models.h"

namespace isthmus {
namespace {

using namespace test_models;

Bytes pack_of(const std::string& name) {
  const Result<Checkpoint> checkpoint = Checkpoint::open(golden(name));
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  Result<Bytes> pack = export_projection(*checkpoint);
  EXPECT_TRUE(pack.ok()) << pack.status().to_string();
  return pack.take();
}

// What capture does on another box: layer inputs in, plane rows out, compared with the rows of the decoder
// itself.
class ProjectingTap : public LayerTap {
 public:
  explicit ProjectingTap(const ProjectionPack& pack) : pack_(pack) {}
  void on_layer_input(int layer, int64_t first, int64_t n, const float* x) override {
    const KvProjection& p = pack_.layers[static_cast<size_t>(layer)];
    const size_t values = static_cast<size_t>(n * p.kv_heads() * p.head_dim());
    k_.assign(values, 0);
    v_.assign(values, 0);
    p.project(x, first, n, pack_.rope, scratch_, {k_.data(), v_.data()});
  }
  void on_kv(int, int64_t, int64_t, const float* k, const float* v) override {
    equal_ = equal_ && std::equal(k_.begin(), k_.end(), k) && std::equal(v_.begin(), v_.end(), v);
    ++calls_;
  }
  bool equal_ = true;
  int calls_ = 0;

 private:
  const ProjectionPack& pack_;
  KvProjection::Scratch scratch_;
  std::vector<float> k_, v_;
};

TEST(ProjectionPack, ProjectsTheDecodersOwnBits) {
  for (const char* name : {"llama_tiny", "qwen2_tiny", "qwen3_tiny"}) {
    const Bytes bytes = pack_of(name);
    const Result<ProjectionPack> pack = load_projection_pack(bytes, "pack");
    ASSERT_TRUE(pack.ok()) << pack.status().to_string();
    const std::unique_ptr<Model> model = load(golden(name));
    ASSERT_NE(model, nullptr);
    KvPool pool = KvPool::create(model->kv_shape(), 512).take();
    Sequence seq(pool);
    ProjectingTap tap(*pack);
    prompt(*model, counted_ids(200, model->config().vocab, 4), seq, 67, &tap);
    EXPECT_TRUE(tap.equal_) << name;
    EXPECT_EQ(tap.calls_, 3 * model->config().layers) << name;
  }
}

TEST(ProjectionPack, DigestIsThatOfTheCheckpointAndStable) {
  const Bytes bytes = pack_of("llama_tiny");
  EXPECT_TRUE(bytes == pack_of("llama_tiny"));
  const Result<ProjectionPack> pack = load_projection_pack(bytes, "pack");
  ASSERT_TRUE(pack.ok());
  EXPECT_EQ(pack->digest, *projection_digest(*Checkpoint::open(golden("llama_tiny"))));
  // RoPE parameters are part of it: same weights, other scaling.
  const Result<Checkpoint> scaled = Checkpoint::open(with_config("llama_tiny", "config_llama3rope.json"));
  ASSERT_TRUE(scaled.ok());
  EXPECT_NE(pack->digest, *projection_digest(*scaled));
  // Version 1 on disk, byte for byte.
  std::ifstream in(golden("llama_tiny") / "projection_v1.safetensors", std::ios::binary);
  const std::string stored((std::istreambuf_iterator<char>(in)), {});
  EXPECT_TRUE(as_text(bytes) == stored) << "the format changed: it needs a new version";
}

struct Edit {
  const char* name;
  std::string from, to;  // of equal length, or the header would not fit
  Code code;
};

TEST(ProjectionPack, RefusesChangedPacks) {
  const Bytes bytes = pack_of("llama_tiny");
  const std::string good(as_text(bytes));
  const Edit edits[] = {
      {"theta", "100000.0", "100001.0", Code::kMismatch},
      {"eps", "9.999999747378752e-06", "9.999999747378752e-05", Code::kMismatch},
      {"positions", "\\\"max_positions\\\":8192", "\\\"max_positions\\\":8191", Code::kMismatch},
      {"scaling", "\\\"type\\\":\\\"none\\\"", "\\\"type\\\":\\\"nope\\\"", Code::kUnsupported},
      {"format", "isthmus-projection", "isthmus-projektion", Code::kUnsupported},
      {"version", "\"version\":\"1\"", "\"version\":\"2\"", Code::kUnsupported},
      {"layers", "\\\"layers\\\":4", "\\\"layers\\\":3", Code::kCorrupt},
      {"heads", "\\\"kv_heads\\\":2", "\\\"kv_heads\\\":4", Code::kCorrupt},
      {"zero", "\\\"width\\\":64", "\\\"width\\\":00", Code::kInvalidArgument},
      {"missing", "\\\"head_dim\\\"", "\\\"head_dym\\\"", Code::kInvalidArgument},
      {"tensor", "layers.2.k\"", "layers.7.k\"", Code::kNotFound},
  };
  for (const Edit& e : edits) {
    ASSERT_EQ(e.from.size(), e.to.size()) << e.name;
    std::string text = good;
    const size_t at = text.find(e.from);
    ASSERT_NE(at, std::string::npos) << e.name << ": " << e.from;
    text.replace(at, e.from.size(), e.to);
    const Result<ProjectionPack> pack = load_projection_pack(as_byte_span(text), "pack");
    EXPECT_EQ(pack.status().code(), e.code) << e.name << ": " << pack.status().to_string();
  }
  std::string flipped = good;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  EXPECT_EQ(load_projection_pack(as_byte_span(flipped), "pack").status().code(), Code::kMismatch);
  EXPECT_FALSE(load_projection_pack(as_byte_span(good.substr(0, good.size() - 1)), "pack").ok());
  EXPECT_FALSE(load_projection_pack({}, "pack").ok());
}

}  // namespace
}  // namespace isthmus
