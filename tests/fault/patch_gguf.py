# SPDX-License-Identifier: Apache-2.0
"""Copies the test model with one float of its metadata changed in place."""
import shutil
import struct

from harness import MODEL

FLOAT32 = 6  # value type of GGUF metadata
METADATA_BYTES = 4 << 20  # the model's scalar entries come first


def copy_with_float(target, key, value):
    shutil.copyfile(MODEL, target)
    name = key.encode()
    entry = struct.pack("<Q", len(name)) + name + struct.pack("<I", FLOAT32)
    with open(target, "r+b") as file:
        at = file.read(METADATA_BYTES).find(entry)
        assert at >= 0, f"{MODEL} has no 32-bit float {key}"
        file.seek(at + len(entry))
        file.write(struct.pack("<f", value))
