# SPDX-License-Identifier: Apache-2.0
"""Makes expected.safetensors: greedy continuations of SmolLM2-135M-Instruct (Q4_1 GGUF) by a plain numpy decoder.

The decoder computes in float64 on the file's dequantized values, and is first checked against ../llama_tiny, whose
logits are transformers'. Usage: make.py MODEL.gguf (needs numpy, gguf, safetensors, ml_dtypes, tokenizers).
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
from ml_dtypes import bfloat16
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HERE = Path(__file__).parent
STEPS = 80
CHAT = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n")
PROMPTS = [
    "def quicksort(items):\n    \"\"\"Return a sorted copy of items.\"\"\"\n    if len(items) <= 1:\n        return items\n",
    CHAT.format("Explain in a few sentences why the sky is blue."),
    CHAT.format("Summarize this text:\n\n" + "\n".join(
        f"In chapter {i} the keeper of the lighthouse counts {i * 7 % 23} ships, writes down the wind and the height of "
        f"the tide, mends a lamp, and waits for a letter from the {('north', 'south', 'east', 'west')[i % 4]}."
        for i in range(1, 9))),
]


class Decoder:
    """A Llama decoder in float64, one sequence, all rows kept."""

    def __init__(self, weights, layers, heads, kv_heads, head_dim, eps, theta):
        self.w, self.layers, self.heads, self.kv_heads = weights, layers, heads, kv_heads
        self.head_dim, self.eps, self.theta = head_dim, eps, theta
        self.k = [np.zeros((0, kv_heads, head_dim))] * layers
        self.v = [np.zeros((0, kv_heads, head_dim))] * layers

    def norm(self, x, g):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * g

    def rope(self, x, positions):
        half = self.head_dim // 2
        angle = np.outer(positions, self.theta ** (-np.arange(half) / half))
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1)

    def attention(self, layer, h, positions):
        w, n = self.w[layer], len(h)
        q = self.rope((h @ w["q"].T).reshape(n, self.heads, -1), positions)
        k = self.rope((h @ w["k"].T).reshape(n, self.kv_heads, -1), positions)
        self.k[layer] = np.concatenate([self.k[layer], k])
        self.v[layer] = np.concatenate([self.v[layer], (h @ w["v"].T).reshape(n, self.kv_heads, -1)])
        keys, values = (np.repeat(t[layer], self.heads // self.kv_heads, 1) for t in (self.k, self.v))
        scores = np.einsum("nhd,mhd->hnm", q, keys) / np.sqrt(self.head_dim)
        scores[:, np.arange(len(keys))[None, :] > positions[:, None]] = -np.inf
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("hnm,mhd->nhd", scores, values).reshape(n, -1) @ w["o"].T

    def forward(self, ids):
        x = self.w["embedding"][ids]
        positions = np.arange(len(self.k[0]), len(self.k[0]) + len(ids))
        for layer in range(self.layers):
            w = self.w[layer]
            x = x + self.attention(layer, self.norm(x, w["input_norm"]), positions)
            h = self.norm(x, w["post_norm"])
            gate = h @ w["gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up"].T)) @ w["down"].T
        return self.norm(x, self.w["output_norm"]) @ self.w["head"].T


HF_NAMES = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
            "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj", "input_norm": "input_layernorm",
            "post_norm": "post_attention_layernorm"}
GGUF_NAMES = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up",
              "down": "ffn_down", "input_norm": "attn_norm", "post_norm": "ffn_norm"}


def check_decoder():
    tiny = HERE.parent / "llama_tiny"
    c = json.loads((tiny / "config.json").read_text())
    t = {k: v.astype(bfloat16).astype(np.float64) for k, v in load_file(tiny / "model.safetensors").items()}
    w = {i: {k: t[f"model.layers.{i}.{n}.weight"] for k, n in HF_NAMES.items()} for i in range(c["num_hidden_layers"])}
    w |= {"embedding": t["model.embed_tokens.weight"], "head": t["model.embed_tokens.weight"],
          "output_norm": t["model.norm.weight"]}
    decoder = Decoder(w, c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"],
                      c["rms_norm_eps"], c["rope_theta"])
    expected = load_file(tiny / "expected.safetensors")
    got = decoder.forward(expected["input_ids"])[expected["positions"]]
    worst = np.abs(got - expected["logits"]).max()
    print(f"llama_tiny: largest difference from transformers {worst:.1e}")
    assert worst < 1e-4


def smollm2(path):
    reader = gguf.GGUFReader(path)
    t = {x.name: gguf.dequantize(x.data, x.tensor_type).astype(np.float64) for x in reader.tensors}
    f = {k: v.contents() for k, v in reader.fields.items()}
    heads, kv_heads = f["llama.attention.head_count"], f["llama.attention.head_count_kv"]
    layers, width = f["llama.block_count"], f["llama.embedding_length"]
    w = {i: {k: t[f"blk.{i}.{n}.weight"] for k, n in GGUF_NAMES.items()} for i in range(layers)}
    for i in range(layers):  # rows of a head: from pairs side by side to pairs half a head apart
        for name, n in (("q", heads), ("k", kv_heads)):
            m = w[i][name]
            w[i][name] = m.reshape(n, -1, 2, m.shape[1]).swapaxes(1, 2).reshape(m.shape)
    w |= {"embedding": t["token_embd.weight"], "head": t["token_embd.weight"], "output_norm": t["output_norm.weight"]}
    return Decoder(w, layers, heads, kv_heads, width // heads, f["llama.attention.layer_norm_rms_epsilon"],
                   f["llama.rope.freq_base"]), f


def tokenizer(fields):
    tokens = fields["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"]]
    tok = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return tok


def main():
    check_decoder()
    decoder, fields = smollm2(sys.argv[1])
    tok = tokenizer(fields)
    empty = (list(decoder.k), list(decoder.v))
    out = {"columns": np.arange(0, 49152, 48, dtype=np.int32)}
    for p, text in enumerate(PROMPTS):
        decoder.k, decoder.v = list(empty[0]), list(empty[1])
        ids = tok.encode(text).ids
        rows = [decoder.forward(ids)[-1]]
        greedy = []
        for _ in range(STEPS):
            greedy.append(int(rows[-1].argmax()))
            rows.append(decoder.forward(greedy[-1:])[-1])
        rows = np.stack(rows[:STEPS])
        top = np.argsort(-rows, axis=1, kind="stable")[:, :4]
        values = np.take_along_axis(rows, top, 1)
        print(f"prompt {p}: {len(ids)} tokens, smallest greedy margin {(values[:, 0] - values[:, 1]).min():.4f}")
        print(tok.decode(greedy))
        out |= {f"{p}.input_ids": np.array(ids, np.int32), f"{p}.greedy_ids": np.array(greedy, np.int32),
                f"{p}.first_logits": rows[0][out["columns"]].astype(np.float32),
                f"{p}.top_ids": top.astype(np.int32), f"{p}.top_logits": values.astype(np.float32)}
    save_file(out, HERE / "expected.safetensors")


if __name__ == "__main__":
    main()
