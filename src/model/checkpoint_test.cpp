// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <list>

#include "kernels/block_format.h"
#include "model/test_models.h"
#include "tensor/gguf_writer.h"

namespace isthmus {
namespace {

using namespace test_models;

struct GgufTensor {
  std::string hf;
  std::string gguf;
  int interleave_heads = 0;  // > 0: rows are stored with pairs side by side, as converters do
};

std::vector<GgufTensor> llama_tensors() {
  std::vector<GgufTensor> all = {{"model.embed_tokens.weight", "token_embd.weight"},
                                 {"model.norm.weight", "output_norm.weight"}};
  for (int i = 0; i < 4; ++i) {
    const std::string hf = "model.layers." + std::to_string(i) + ".", gguf = "blk." + std::to_string(i) + ".";
    all.push_back({hf + "input_layernorm.weight", gguf + "attn_norm.weight"});
    all.push_back({hf + "self_attn.q_proj.weight", gguf + "attn_q.weight", 8});
    all.push_back({hf + "self_attn.k_proj.weight", gguf + "attn_k.weight", 2});
    all.push_back({hf + "self_attn.v_proj.weight", gguf + "attn_v.weight"});
    all.push_back({hf + "self_attn.o_proj.weight", gguf + "attn_output.weight"});
    all.push_back({hf + "post_attention_layernorm.weight", gguf + "ffn_norm.weight"});
    all.push_back({hf + "mlp.gate_proj.weight", gguf + "ffn_gate.weight"});
    all.push_back({hf + "mlp.up_proj.weight", gguf + "ffn_up.weight"});
    all.push_back({hf + "mlp.down_proj.weight", gguf + "ffn_down.weight"});
  }
  return all;
}

// llama_tiny as a GGUF file. The types of its matrices are `type_of(gguf name)`.
class TinyGguf {
 public:
  using TypeOf = std::function<DType(const std::string&)>;

  explicit TinyGguf(const TypeOf& type_of) {
    const Safetensors model = Safetensors::open(golden("llama_tiny") / "model.safetensors").take();
    for (const GgufTensor& t : llama_tensors()) add(*model.tensors().find(t.hf), t, type_of(t.gguf));
    writer.set_string("general.architecture", "llama");
    writer.set_u32("llama.block_count", 4);
    writer.set_u32("llama.embedding_length", 64);
    writer.set_u32("llama.feed_forward_length", 176);
    writer.set_u32("llama.attention.head_count", 8);
    writer.set_u32("llama.attention.head_count_kv", 2);
    writer.set_u32("llama.context_length", 8192);
    writer.set_f32("llama.rope.freq_base", 100000.0F);
    writer.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  }

  // Writes what `keep` lets through.
  std::filesystem::path write(const std::string& name, const std::function<bool(const TensorView&)>& keep) {
    for (const TensorView& t : tensors) {
      if (keep(t)) writer.add_tensor(t);
    }
    const std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("isthmus_" + name + ".gguf");
    PosixFs fs;
    const Status s = writer.write_file(fs, path);
    EXPECT_TRUE(s.ok()) << s.to_string();
    return path;
  }
  std::filesystem::path write(const std::string& name) {
    return write(name, [](const TensorView&) { return true; });
  }

  GgufWriter writer;
  std::vector<TensorView> tensors;

 private:
  void add(const TensorView& source, const GgufTensor& t, DType type) {
    const int64_t rows = source.rows(), k = source.row_elements();
    if (source.shape.size() == 1) type = DType::kF32;
    if (k % dtype_info(type).block_elements != 0) type = DType::kF16;  // as converters fall back
    Bytes& bytes = storage_.emplace_back(static_cast<size_t>(rows) * row_bytes(type, k));
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t r = 0; r < rows; ++r) {
      int64_t from = r;
      if (t.interleave_heads > 0) {
        const int64_t dim = rows / t.interleave_heads, head = r / dim * dim, in_head = r % dim;
        from = head + in_head % 2 * (dim / 2) + in_head / 2;
      }
      kernels::dequantize_row(source.dtype, source.row(from).data(), k, row.data());
      std::byte* to = bytes.data() + static_cast<size_t>(r) * row_bytes(type, k);
      EXPECT_TRUE(kernels::quantize_row(type, row.data(), k, to).ok());
    }
    tensors.push_back({.name = t.gguf, .dtype = type, .shape = source.shape, .data = bytes});
  }

  std::list<Bytes> storage_;
};

std::vector<float> logits_of(Model& model, const std::vector<TokenId>& ids) {
  KvPool pool = KvPool::create(model.kv_shape(), 256).take();
  Sequence seq(pool);
  prompt(model, std::span(ids).first(ids.size() - 1), seq, 64);
  return step(model, ids.back(), seq);
}

TEST(CheckpointGguf, IsTheHubModelBitForBit) {
  TinyGguf gguf([](const std::string&) { return DType::kBF16; });
  const std::filesystem::path path = gguf.write("bf16");
  const std::vector<TokenId> ids = counted_ids(100, 256, 9);
  for (const Arithmetic arithmetic : {Arithmetic::kProduction, Arithmetic::kReferenceF32}) {
    const std::unique_ptr<Model> hub = load(golden("llama_tiny"), arithmetic), file = load(path, arithmetic);
    ASSERT_TRUE(hub != nullptr && file != nullptr);
    EXPECT_TRUE(logits_of(*hub, ids) == logits_of(*file, ids));
  }
  // And so is its projection pack, but for nothing: rows are half-split whatever the source.
  EXPECT_EQ(dump_canonical(arithmetic_json(load(path)->config())),
            dump_canonical(arithmetic_json(load(golden("llama_tiny"))->config())));
}

// Every type that models come in, and stacks whose parts differ in type (q, k, v and gate, up).
TEST(CheckpointGguf, QuantizedAndMixedTypesAreCloseToTheirReference) {
  const std::pair<const char*, TinyGguf::TypeOf> kinds[] = {
      {"f32", [](const std::string&) { return DType::kF32; }},
      {"f16", [](const std::string&) { return DType::kF16; }},
      {"q8_0", [](const std::string&) { return DType::kQ8_0; }},
      {"q4_0", [](const std::string&) { return DType::kQ4_0; }},
      {"q4_1", [](const std::string&) { return DType::kQ4_1; }},
      {"mixed",
       [](const std::string& name) {
         const bool other =
             name.find("attn_v") != std::string::npos || name.find("ffn_up") != std::string::npos;
         return other ? DType::kQ8_0 : DType::kQ4_0;
       }},
  };
  constexpr float kBound = 1.0F;  // rounding of activations to bf16 and int8, logits up to about 10
  const std::vector<TokenId> ids = counted_ids(100, 256, 9);
  for (const auto& [name, type_of] : kinds) {
    TinyGguf gguf(type_of);
    const std::filesystem::path path = gguf.write(name);
    const std::unique_ptr<Model> production = load(path), reference = load(path, Arithmetic::kReferenceF32);
    ASSERT_TRUE(production != nullptr && reference != nullptr) << name;
    const float worst = largest_difference(logits_of(*production, ids), logits_of(*reference, ids));
    EXPECT_LE(worst, kBound) << name;
    EXPECT_GT(worst, 0.0F) << name;
  }
}

struct BadFile {
  const char* name;
  std::function<void(TinyGguf&)> damage;
  const char* drop;  // a tensor that is left out
  Code code;
  const char* says;
};

TEST(CheckpointGguf, RefusesWhatItCannotRun) {
  static const float kZeros[4096] = {};
  const auto extra = [](const char* tensor, std::vector<int64_t> shape) {
    return [tensor, shape](TinyGguf& g) {
      g.tensors.push_back({.name = tensor, .dtype = DType::kF32, .shape = shape, .data = {}});
      g.tensors.back().data =
          std::as_bytes(std::span(kZeros)).first(static_cast<size_t>(g.tensors.back().elements()) * 4);
    };
  };
  const BadFile files[] = {
      {"architecture", [](TinyGguf& g) { g.writer.set_string("general.architecture", "mamba"); }, "",
       Code::kUnsupported, "mamba"},
      {"missing tensor", [](TinyGguf&) {}, "blk.2.ffn_up.weight", Code::kNotFound, "blk.2.ffn_up.weight"},
      {"missing embedding", [](TinyGguf&) {}, "token_embd.weight", Code::kNotFound, "token_embd.weight"},
      {"unused bias", extra("blk.0.attn_q.bias", {64}), "", Code::kUnsupported, "attn_q.bias"},
      {"more layers than stated", extra("blk.4.attn_norm.weight", {64}), "", Code::kUnsupported, "blk.4"},
      {"head shape", extra("output.weight", {32, 64}), "", Code::kCorrupt, "output.weight"},
      {"layers", [](TinyGguf& g) { g.writer.set_u32("llama.block_count", 5); }, "", Code::kNotFound, "blk.4"},
      {"width", [](TinyGguf& g) { g.writer.set_u32("llama.embedding_length", 128); }, "", Code::kCorrupt,
       "token_embd"},
      {"heads", [](TinyGguf& g) { g.writer.set_u32("llama.attention.head_count", 7); }, "", Code::kCorrupt,
       "heads"},
      {"factors", extra("rope_freqs.weight", {4}), "", Code::kUnsupported, "factors"},
  };
  for (const BadFile& f : files) {
    TinyGguf gguf([](const std::string&) { return DType::kBF16; });
    f.damage(gguf);
    const auto path = gguf.write("bad", [&f](const TensorView& t) { return t.name != f.drop; });
    const Result<std::unique_ptr<Model>> model = Model::load(path, {});
    EXPECT_EQ(model.status().code(), f.code) << f.name << ": " << model.status().to_string();
    EXPECT_NE(model.status().message().find(f.says), std::string::npos)
        << f.name << ": " << model.status().to_string();
  }
  EXPECT_EQ(Model::load("/nonexistent/model.gguf", {}).status().code(), Code::kNotFound);
}

TEST(CheckpointGguf, ReadsFrequencyFactors) {
  static const float kFactors[4] = {1, 1, 2, 8};
  TinyGguf gguf([](const std::string&) { return DType::kBF16; });
  gguf.tensors.push_back({.name = "rope_freqs.weight",
                          .dtype = DType::kF32,
                          .shape = {4},
                          .data = std::as_bytes(std::span(kFactors))});
  const Result<Checkpoint> checkpoint = Checkpoint::open(gguf.write("factors"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().to_string();
  EXPECT_EQ(checkpoint->config().rope.scaling, RopeScaling::kFactors);
  EXPECT_EQ(checkpoint->config().rope.freq_factors, std::vector<float>(kFactors, kFactors + 4));
}

TEST(CheckpointHub, RefusesOtherModelTypes) {
  const std::filesystem::path path = with_config("llama_tiny", "config.json");
  std::ofstream(path / "config.json") << R"({"model_type":"mixtral","num_hidden_layers":4})";
  const Result<Checkpoint> checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint.status().code(), Code::kUnsupported);
  EXPECT_NE(checkpoint.status().message().find("mixtral"), std::string::npos);
}

}  // namespace
}  // namespace isthmus
