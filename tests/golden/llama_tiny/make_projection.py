# SPDX-License-Identifier: Apache-2.0
"""Makes projection_v1.safetensors: the projection pack of this model, written from docs/formats/projection-pack.md alone.
The weights are copied as stored (they are BF16), so nothing but Python is needed. Usage: python make_projection.py"""
import hashlib
import json
import struct
from pathlib import Path

HERE = Path(__file__).parent


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    return {name: data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]]
            for name, t in header.items() if name != "__metadata__"}


def to_f32(bf16):
    return b"".join(b"\0\0" + bf16[i:i + 2] for i in range(0, len(bf16), 2))


def as_float(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def main():
    model = read_safetensors(HERE / "model.safetensors")
    c = json.loads((HERE / "config.json").read_text())
    config = json.dumps({
        "head_dim": c["head_dim"], "k_norm": False, "kv_bias": False, "kv_heads": c["num_key_value_heads"],
        "layers": c["num_hidden_layers"], "max_positions": c["max_position_embeddings"],
        "norm_eps": as_float(c["rms_norm_eps"]),
        "rope": {"factor": 1.0, "freq_factors": [], "high_freq_factor": 0.0, "low_freq_factor": 0.0,
                 "original_max_positions": 0, "rotary_dim": c["head_dim"], "theta": c["rope_theta"], "type": "none"},
        "width": c["hidden_size"]}, separators=(",", ":"))
    tensors = []  # in the order of the digest
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        tensors.append((f"layers.{i}.input_norm", "f32", [c["hidden_size"]],
                        to_f32(model[layer + "input_layernorm.weight"])))
        for part in "kv":
            tensors.append((f"layers.{i}.{part}", "bf16", [c["num_key_value_heads"] * c["head_dim"], c["hidden_size"]],
                            model[layer + f"self_attn.{part}_proj.weight"]))
    digest = hashlib.sha256()
    items = [b"isthmus-projection", config.encode()]
    for name, dtype, _, data in tensors:
        items += [name.encode(), dtype.encode(), data]
    for item in items:
        digest.update(struct.pack("<Q", len(item)) + item)
    header = {"__metadata__": {"config": config, "digest": digest.hexdigest(), "format": "isthmus-projection",
                               "version": "1"}}
    body = b""
    for name, dtype, shape, data in sorted(tensors, key=lambda t: (t[1] != "f32", t[0])):
        header[name] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (HERE / "projection_v1.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


if __name__ == "__main__":
    main()
