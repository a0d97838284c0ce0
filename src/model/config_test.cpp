// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/family.h"
#include "model/rope_table.h"

namespace isthmus {
namespace {

Json hf_llama() {
  return *parse_json(R"({"model_type":"llama","num_hidden_layers":4,"hidden_size":64,"intermediate_size":176,
    "num_attention_heads":8,"num_key_value_heads":2,"vocab_size":256,"rms_norm_eps":1e-05,"rope_theta":100000.0,
    "max_position_embeddings":8192,"hidden_act":"silu","tie_word_embeddings":true,"bos_token_id":0,"eos_token_id":1})",
                     "test");
}

Json gguf_llama() {
  return *parse_json(R"({"general.architecture":"llama","llama.block_count":4,"llama.embedding_length":64,
    "llama.feed_forward_length":176,"llama.attention.head_count":8,"llama.attention.head_count_kv":2,
    "llama.rope.freq_base":100000.0,"llama.attention.layer_norm_rms_epsilon":9.999999747378752e-06,
    "llama.context_length":8192,"llama.rope.dimension_count":8,"tokenizer.ggml.bos_token_id":0,
    "tokenizer.ggml.eos_token_id":1})",
                     "test");
}

struct ConfigCase {
  const char* name;
  const char* patch;  // merged into the good configuration; null removes a key
  Code code;
  const char* says;  // part of the message
};

const ConfigCase kHfCases[] = {
    {"good", "{}", Code::kOk, ""},
    {"no kv heads: as many as heads", R"({"num_key_value_heads":null})", Code::kOk, ""},
    {"rope_parameters", R"({"rope_theta":null,"rope_parameters":{"rope_type":"default","rope_theta":5e5}})",
     Code::kOk, ""},
    {"linear scaling", R"({"rope_scaling":{"type":"linear","factor":4.0}})", Code::kOk, ""},
    {"several eos", R"({"eos_token_id":[1,2,3]})", Code::kOk, ""},
    {"no layers", R"({"num_hidden_layers":null})", Code::kInvalidArgument, "num_hidden_layers"},
    {"zero heads", R"({"num_attention_heads":0})", Code::kCorrupt, "num_attention_heads"},
    {"huge", R"({"hidden_size":268435456})", Code::kUnsupported, "hidden size"},
    {"overflow", R"({"hidden_size":1e30})", Code::kInvalidArgument, "hidden_size"},
    {"negative", R"({"vocab_size":-1})", Code::kCorrupt, "vocab_size"},
    {"heads no multiple", R"({"num_key_value_heads":3})", Code::kCorrupt, "KV heads"},
    {"odd head", R"({"head_dim":7})", Code::kUnsupported, "RoPE dims"},
    {"eps", R"({"rms_norm_eps":0})", Code::kCorrupt, "norm eps"},
    {"no theta", R"({"rope_theta":null})", Code::kCorrupt, "rope_theta"},
    {"theta", R"({"rope_theta":-5.0})", Code::kUnsupported, "theta"},
    {"yarn", R"({"rope_scaling":{"rope_type":"yarn","factor":4.0}})", Code::kUnsupported, "yarn"},
    {"llama3 without factors", R"({"rope_scaling":{"rope_type":"llama3","factor":8.0}})",
     Code::kInvalidArgument, "low_freq_factor"},
    {"llama3 reversed",
     R"({"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":4.0,"high_freq_factor":1.0,
         "original_max_position_embeddings":256}})",
     Code::kUnsupported, "llama3"},
    {"scaling is text", R"({"rope_scaling":"linear"})", Code::kUnsupported, "rope_scaling"},
    {"activation", R"({"hidden_act":"gelu"})", Code::kUnsupported, "gelu"},
    {"mlp bias", R"({"mlp_bias":true})", Code::kUnsupported, "mlp_bias"},
    {"sliding window", R"({"use_sliding_window":true})", Code::kUnsupported, "use_sliding_window"},
    {"eos outside", R"({"eos_token_id":256})", Code::kCorrupt, "eos"},
    {"eos text", R"({"eos_token_id":"x"})", Code::kCorrupt, "special token"},
};

Status checked(const Result<ModelConfig>& config) {
  return config.ok() ? check_config(*config) : config.status();
}

TEST(Config, HfAcceptsAndRefuses) {
  for (const ConfigCase& c : kHfCases) {
    Json json = hf_llama();
    json.merge_patch(*parse_json(c.patch, "patch"));
    const Status s = checked(kLlamaFamily.read_hf(json));
    EXPECT_EQ(s.code(), c.code) << c.name << ": " << s.to_string();
    EXPECT_NE(s.message().find(c.says), std::string::npos) << c.name << ": " << s.to_string();
  }
}

const ConfigCase kGgufCases[] = {
    {"good", "{}", Code::kOk, ""},
    {"no layers", R"({"llama.block_count":null})", Code::kInvalidArgument, "block_count"},
    {"no theta", R"({"llama.rope.freq_base":null})", Code::kInvalidArgument, "freq_base"},
    {"partial rotation", R"({"llama.rope.dimension_count":4})", Code::kUnsupported, "dimension_count"},
    {"yarn", R"({"llama.rope.scaling.type":"yarn"})", Code::kUnsupported, "yarn"},
    {"value size", R"({"llama.attention.key_length":8,"llama.attention.value_length":16})",
     Code::kUnsupported, "value_length"},
    {"window", R"({"llama.attention.sliding_window":512})", Code::kUnsupported, "sliding_window"},
    {"layers is text", R"({"llama.block_count":"4"})", Code::kInvalidArgument, "block_count"},
};

TEST(Config, GgufAcceptsAndRefuses) {
  for (const ConfigCase& c : kGgufCases) {
    Json json = gguf_llama();
    json.merge_patch(*parse_json(c.patch, "patch"));
    Result<ModelConfig> config = kLlamaFamily.read_gguf(json);
    if (config.ok()) config->vocab = 256;  // the embedding's shape tells
    const Status s = checked(config);
    EXPECT_EQ(s.code(), c.code) << c.name << ": " << s.to_string();
    EXPECT_NE(s.message().find(c.says), std::string::npos) << c.name << ": " << s.to_string();
  }
}

TEST(Config, BothKindsOfFileNameOneModel) {
  const ModelConfig hf = *kLlamaFamily.read_hf(hf_llama());
  ModelConfig gguf = *kLlamaFamily.read_gguf(gguf_llama());
  gguf.vocab = 256;
  gguf.tied_embeddings = true;
  EXPECT_EQ(dump_canonical(arithmetic_json(hf)), dump_canonical(arithmetic_json(gguf)));
  EXPECT_EQ(hf.bos, gguf.bos);
  EXPECT_EQ(hf.eos, gguf.eos);
}

TEST(Config, FamiliesAddTheirOwn) {
  EXPECT_FALSE(kLlamaFamily.read_hf(hf_llama())->qkv_bias);
  Json biased = hf_llama();
  biased["attention_bias"] = true;
  EXPECT_TRUE(kLlamaFamily.read_hf(biased)->output_bias);
  EXPECT_TRUE(kQwen2Family.read_hf(hf_llama())->qkv_bias);
  EXPECT_FALSE(kQwen2Family.read_hf(hf_llama())->output_bias);
  EXPECT_TRUE(kQwen3Family.read_hf(hf_llama())->qk_norm);
  EXPECT_EQ(kQwen3Family.read_hf(biased).status().code(), Code::kUnsupported);
  EXPECT_EQ(find_family("mamba").status().code(), Code::kUnsupported);
  EXPECT_EQ((*find_family("qwen2"))->name, "qwen2");
}

TEST(Config, EveryRopeFieldIsPartOfTheIdentity) {
  const RopeConfig base = {.theta = 1e6,
                           .rotary_dim = 8,
                           .scaling = RopeScaling::kLlama3,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_positions = 256,
                           .freq_factors = {}};
  std::vector<RopeConfig> others(7, base);
  others[0].theta = 1e5;
  others[1].rotary_dim = 6;
  others[2].factor = 4;
  others[3].low_freq_factor = 2;
  others[4].high_freq_factor = 3;
  others[5].original_max_positions = 512;
  others[6].scaling = RopeScaling::kFactors;
  others[6].freq_factors = {1, 1, 2, 2};
  for (const RopeConfig& other : others) {
    EXPECT_NE(dump_canonical(rope_json(other)), dump_canonical(rope_json(base)));
    const Result<RopeConfig> read = rope_from_json(rope_json(other));
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, other);
  }
}

TEST(RopeTable, RotatesByTheta) {
  const RopeConfig plain = {.theta = 10000, .rotary_dim = 4, .freq_factors = {}};
  const RopeTable t = RopeTable::create(plain, 3000).take();
  EXPECT_EQ(t.half(), 2);
  EXPECT_EQ(t.cos(0)[0], 1.0F);
  EXPECT_FLOAT_EQ(t.cos(7)[0], static_cast<float>(std::cos(7.0)));
  EXPECT_FLOAT_EQ(t.sin(7)[1], static_cast<float>(std::sin(0.07)));
  EXPECT_FLOAT_EQ(t.sin(2999)[1], static_cast<float>(std::sin(29.99)));
  EXPECT_EQ(t.cos(5) + 2, t.cos(6)) << "rows of consecutive positions are contiguous";

  RopeConfig scaled = plain;
  scaled.scaling = RopeScaling::kLinear;
  scaled.factor = 4;
  EXPECT_FLOAT_EQ(RopeTable::create(scaled, 16).take().cos(8)[0], static_cast<float>(std::cos(2.0)));
  scaled.scaling = RopeScaling::kFactors;
  scaled.freq_factors = {1, 2};
  EXPECT_FLOAT_EQ(RopeTable::create(scaled, 16).take().sin(8)[1], static_cast<float>(std::sin(0.04)));
}

}  // namespace
}  // namespace isthmus
