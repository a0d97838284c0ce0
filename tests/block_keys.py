# SPDX-License-Identifier: Apache-2.0
"""Block keys from docs/formats/block.md alone, not through the project's code. Run as a program it writes the golden file
tests/golden/block/keys.json."""
import hashlib
import json
import pathlib
import struct

KINDS = {"native": 0, "kv": 1, "project": 2}


def block_key(parent, kind, producer, ids):
    head = parent + struct.pack("<B", KINDS[kind]) + producer + struct.pack("<I", len(ids))
    return hashlib.sha256(b"isthmus-block-1" + head + struct.pack(f"<{len(ids)}i", *ids)).digest()


def chain_keys(identity, kind, producer, ids, block_tokens):
    """Keys of the chain's blocks in order, in hexadecimal; the last may be a partial tail."""
    parent = hashlib.sha256(b"isthmus-root-1" + identity).digest()
    keys = []
    for first in range(0, len(ids), block_tokens):
        parent = block_key(parent, kind, producer, ids[first : first + block_tokens])
        keys.append(parent.hex())
    return keys


def golden():
    identity, producer = (hashlib.sha256(f"golden {name}".encode()).digest() for name in ("identity", "producer"))
    ids = [(7919 * i + 13) % 49152 for i in range(1000)]
    keys = {kind: chain_keys(identity, kind, bytes(32) if kind == "native" else producer, ids, 256) for kind in KINDS}
    return {"identity": identity.hex(), "producer": producer.hex(), "block_tokens": 256, "ids": ids, "keys": keys}


if __name__ == "__main__":
    path = pathlib.Path(__file__).with_name("golden") / "block/keys.json"
    path.write_text(json.dumps(golden(), separators=(",", ":")) + "\n")
