# SPDX-License-Identifier: Apache-2.0
"""Makes blocks.safetensors: random blocks of every type with the values that the `gguf` package expands them to, and random
rows with the blocks that it makes of them. Versions: README.md. Usage: python make.py (writes beside itself)."""

import pathlib

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

SMALL_BLOCKS = 256
SUPER_BLOCKS = 48
MADE_BLOCKS = 128
# f16 scales that sit at an edge: zeros, smallest subnormal, smallest normal, largest, ones.
EDGES = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x0400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00], dtype=np.uint16)

# Byte offsets of the f16 fields of each type.
F16_FIELDS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [],
}  # fmt: skip
MADE = ["F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "MXFP4"]


def random_blocks(rng, name, count):
    size = gguf.constants.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][1]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in F16_FIELDS[name]:
        scales = rng.normal(0, 0.05, count).astype(np.float16).view(np.uint16)
        scales[: EDGES.size] = rng.permutation(EDGES)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        blocks[:256, 0] = np.arange(256)  # every exponent
    return blocks


def random_rows(rng, count):
    rows = rng.normal(0, 1, (count, 32)).astype(np.float32)
    rows *= np.exp2(rng.integers(-12, 12, (count, 1))).astype(np.float32)
    rows[0] = 0
    rows[1] = 3
    rows[2] = -3
    rows[3, 5:] = 0
    rows[4] = np.abs(rows[4])
    rows[5] = np.arange(32) - 16  # ties
    rows[6, ::2] = -rows[6, 1::2]  # equal magnitudes of both signs
    return rows


def main():
    rng = np.random.default_rng(117)
    out = {}
    with np.errstate(over="ignore"):  # the largest MXFP4 exponents expand to infinity
        for name in F16_FIELDS:
            small = gguf.constants.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]][0] == 32
            blocks = random_blocks(rng, name, SMALL_BLOCKS if small else SUPER_BLOCKS)
            out[f"{name.lower()}.blocks"] = blocks
            out[f"{name.lower()}.values"] = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])
    all_bytes = np.arange(256, dtype=np.uint8).reshape(1, 256)
    out["f8_e4m3.blocks"] = all_bytes
    out["f8_e4m3.values"] = all_bytes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)

    rows = random_rows(rng, MADE_BLOCKS)
    out["rows"] = rows
    for name in MADE:
        made = gguf.quants.quantize(rows, gguf.GGMLQuantizationType[name])
        out[f"{name.lower()}.made"] = np.ascontiguousarray(made).view(np.uint8)
        out[f"{name.lower()}.made_values"] = gguf.quants.dequantize(made, gguf.GGMLQuantizationType[name])
    for key in [k for k in out if k.endswith("made_values") and not k.startswith(("f16", "bf16"))]:
        del out[key]  # covered by .values
    save_file(out, pathlib.Path(__file__).parent / "blocks.safetensors")


if __name__ == "__main__":
    main()
