# SPDX-License-Identifier: Apache-2.0
"""Writes v1.isb from docs/formats/block.md alone, not through the project's code. Needs the package xxhash."""

import hashlib
import json
import pathlib
import struct

import xxhash

IDS = [7, -1, 49151]
FIRST = 4
TRANSFER = b"t-1"
PROJECT = 2

identity = hashlib.sha256(b"golden identity").digest()
producer = hashlib.sha256(b"golden producer").digest()
parent = hashlib.sha256(b"golden parent").digest()
ids = struct.pack("<3i", *IDS)
key = hashlib.sha256(
    b"isthmus-block-1" + parent + struct.pack("<B", PROJECT) + producer + struct.pack("<I", len(IDS)) + ids
).digest()


def plane(name: str) -> dict[str, object]:
    return {"name": name, "layer": 0, "kind": "token_rows", "ratio": 1, "dtype": "bf16", "row_values": 2}


layout = json.dumps(
    {"block_tokens": 4, "planes": [plane("L0.k"), plane("L0.v")]}, sort_keys=True, separators=(",", ":")
).encode()
planes = bytes(range(2 * len(IDS) * 4))  # two planes of three rows of two bf16 values

header = b"ISTHMUSB" + struct.pack("<II", 1, 0) + identity + key + parent + producer
header += hashlib.sha256(layout).digest()
header += struct.pack("<qQQ", FIRST, len(planes), xxhash.xxh3_64_intdigest(planes))
header += struct.pack("<IIBB6x", len(IDS), len(layout), PROJECT, len(TRANSFER))
header += ids + TRANSFER + layout
header += bytes(-len(header) % 8)
header = header[:12] + struct.pack("<I", len(header) + 8) + header[16:]
header += struct.pack("<Q", xxhash.xxh3_64_intdigest(header))
pathlib.Path(__file__).with_name("v1.isb").write_bytes(header + planes)
