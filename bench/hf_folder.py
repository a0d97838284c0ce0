# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face folder in bf16 with the values of a GGUF file of the llama family, for engines that read no GGUF.

Runs in the Python environment of scripts/venv vllm. No tokenizer is written: the benchmarks speak in token ids.
"""
import json
import os
import pathlib
import shutil

import gguf
import torch
from safetensors.torch import save_file

OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"}
OF_LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    if name in OUTER:
        return OUTER[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{OF_LAYER[part]}.weight"


def unpermute(weight, heads):
    """GGUF keeps the two halves of each rotated pair side by side; Hugging Face keeps them half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def config(field, names):
    heads, width = field("attention.head_count"), field("embedding_length")
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "torch_dtype": "bfloat16",
        "hidden_size": width, "intermediate_size": field("feed_forward_length"), "num_hidden_layers": field("block_count"),
        "num_attention_heads": heads, "num_key_value_heads": field("attention.head_count_kv"), "head_dim": width // heads,
        "vocab_size": field("vocab_size"), "max_position_embeddings": field("context_length"),
        "rope_theta": field("rope.freq_base"), "rms_norm_eps": field("attention.layer_norm_rms_epsilon"), "hidden_act": "silu",
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": "output.weight" not in names,
        "bos_token_id": 1, "eos_token_id": 2,
    }


def write(model, folder):
    """Writes `folder` unless it is there; a folder that exists is whole."""
    folder = pathlib.Path(folder)
    if folder.exists():
        return
    reader = gguf.GGUFReader(model)

    def field(name):
        return reader.fields[f"llama.{name}"].contents()

    heads = {"attn_q": field("attention.head_count"), "attn_k": field("attention.head_count_kv")}
    tensors = {}
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = unpermute(values, heads[part])
        tensors[hf_name(tensor.name)] = torch.from_numpy(values.copy()).to(torch.bfloat16)
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    save_file(tensors, partial / "model.safetensors", {"format": "pt"})
    (partial / "config.json").write_text(json.dumps(config(field, {t.name for t in reader.tensors}), indent=1) + "\n")
    partial.rename(folder)
