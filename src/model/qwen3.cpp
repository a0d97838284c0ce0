// SPDX-License-Identifier: Apache-2.0
// Qwen3, dense: as llama, with per-head RMS norms on q and k and a head size of its own.
#include <optional>

#include "model/family.h"

namespace isthmus {
namespace {

// Config.
Result<ModelConfig> read_hf(const Json& config) {
  ASSIGN_OR_RETURN(ModelConfig c, read_hf_config(config, "qwen3"));
  ASSIGN_OR_RETURN(const std::optional<bool> bias, find_bool(config, "attention_bias", "config.json"));
  if (bias.value_or(false)) {
    return Status(Code::kUnsupported, "config.json: attention_bias: expected false for qwen3, got true");
  }
  c.qk_norm = true;
  return c;
}

Result<ModelConfig> read_gguf(const Json& metadata) {
  ASSIGN_OR_RETURN(ModelConfig c, read_gguf_config(metadata, "qwen3"));
  c.qk_norm = true;
  return c;
}

constexpr TensorName kTensors[] = {
    // Attention.
    {TensorRole::kInputNorm, "model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight"},
    {TensorRole::kQ, "model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight"},
    {TensorRole::kK, "model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight"},
    {TensorRole::kV, "model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight"},
    {TensorRole::kQNorm, "model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight"},
    {TensorRole::kKNorm, "model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight"},
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
const Family kQwen3Family = {.name = "qwen3",
                             .read_hf = read_hf,
                             .read_gguf = read_gguf,
                             .tensors = kTensors,
                             .gguf_interleaves_qk = false};

}  // namespace isthmus
