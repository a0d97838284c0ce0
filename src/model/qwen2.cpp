// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen2.5, dense: as llama, with biases on q, k and v.
#include <optional>

#include "model/family.h"

namespace isthmus {
namespace {

// Config.
Result<ModelConfig> read_hf(const Json& config) {
  ASSIGN_OR_RETURN(ModelConfig c, read_hf_config(config, "qwen2"));
  c.qkv_bias = true;
  return c;
}

Result<ModelConfig> read_gguf(const Json& metadata) {
  ASSIGN_OR_RETURN(ModelConfig c, read_gguf_config(metadata, "qwen2"));
  c.qkv_bias = true;
  return c;
}

constexpr TensorName kTensors[] = {
    // Attention.
    {TensorRole::kInputNorm, "model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {TensorRole::kQ, "model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {TensorRole::kK, "model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight"},
    {TensorRole::kV, "model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {TensorRole::kQBias, "model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias"},
    {TensorRole::kKBias, "model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias"},
    {TensorRole::kVBias, "model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias"},
    {TensorRole::kO, "model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight"},
    // MLP.
    {TensorRole::kPostNorm, "model.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight"},
    {TensorRole::kGate, "model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight"},
    {TensorRole::kUp, "model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight"},
    {TensorRole::kDown, "model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight"},
    // Model.
    {TensorRole::kEmbedding, "model.embed_tokens.weight", "token_embd.weight"},
    {TensorRole::kOutputNorm, "model.norm.weight", "output_norm.weight"},
    {TensorRole::kHead, "lm_head.weight", "output.weight"},
};

}  // namespace

// Block: the shared decoder block (model/decoder_block.h). Weight clean-up: the order of q and k rows in GGUF
// files.
const Family kQwen2Family = {.name = "qwen2",
                             .read_hf = read_hf,
                             .read_gguf = read_gguf,
                             .tensors = kTensors,
                             .gguf_interleaves_qk = false};

}  // namespace isthmus
