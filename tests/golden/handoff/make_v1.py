# SPDX-License-Identifier: Apache-2.0
"""Writes v1.ish from docs/formats/handoff.md alone, not through the project's code. Needs the package xxhash."""
import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
import handoff_wire as wire

BLOCK, TOKENS = 8, 20
LAST = TOKENS - 1
PLANES = [  # every kind of plane: name, layer, kind, ratio, dtype, bytes of a value, values of a row
    ("L0.window", 0, "window", 5, "f32", 4, 3),
    ("L1.k", 1, "token_rows", 1, "bf16", 2, 4),
    ("L1.pool", 1, "pooled", 4, "bf16", 2, 6),
    ("L1.prev", 1, "previous", 4, "f16", 2, 2),
    ("L1.buf", 1, "remainder", 4, "bf16", 2, 2),
    ("L2.pool", 2, "pooled", 16, "bf16", 2, 2),
]


def rows(kind, ratio, a, b):
    done = b // ratio * ratio
    return {"token_rows": b - a, "pooled": b // ratio - a // ratio, "window": min(b, ratio), "previous": min(done, ratio),
            "remainder": b - done}[kind]


def block(a, b):
    """(name, dtype, shape, bytes) of each plane, in the order of the layout; finite values that differ at every place."""
    planes, at = [], 0
    for name, _, kind, ratio, dtype, width, values in PLANES:
        count = rows(kind, ratio, a, b)
        size = count * values * width
        data = bytes((i * 7 + a * 13) & 0x3B for i in range(at, at + size))
        planes.append((name, dtype.upper(), [count, values], data))
        at += size
    return planes


def sha256(text):
    return hashlib.sha256(text).hexdigest()


def buffer_order(plane):
    """Wider values first, then by name."""
    return -4 if plane[1] == "F32" else -2, plane[0]


blocks = [(a, min(a + BLOCK, LAST)) for a in range(0, LAST, BLOCK)]
plane_bytes = sum(len(plane[3]) for a, b in blocks for plane in block(a, b))
layout = {"block_tokens": BLOCK, "planes": [
    {"name": name, "layer": layer, "kind": kind, "ratio": ratio, "dtype": dtype, "row_values": values}
    for name, layer, kind, ratio, dtype, _, values in PLANES]}
frames = [wire.Frame(wire.OPEN, {
    "transfer": "00112233445566778899aabbccddeeff", "tokens": TOKENS, "first": 0, "last": LAST, "ids": sha256(b"ids"),
    "identity": sha256(b"identity"), "mode": "project", "producer": sha256(b"producer"), "plane_bytes": plane_bytes,
    "layout": layout})]
for a, b in blocks:
    frames.append(wire.Frame(wire.ROWS, {"first": a, "last": b, "plane": 0, "planes": len(PLANES)},
                             wire.safetensors(sorted(block(a, b), key=buffer_order)), len(frames)))
written = b"".join(f.bytes() for f in frames)
seal = wire.Frame(wire.SEAL, {"last": LAST, "frames": len(frames), "bytes": plane_bytes, "digest": wire.seal_digest(frames)},
                  sequence=len(frames))
pathlib.Path(__file__).with_name("v1.ish").write_bytes(written + seal.bytes())
