# SPDX-License-Identifier: Apache-2.0
"""Copies the test model with one float of its metadata changed, or changes one bit of one tensor in place."""
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


SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
DEFAULT_ALIGNMENT = 32


class _Reader:
    def __init__(self, file):
        self.file = file

    def number(self, form):
        return struct.unpack("<" + form, self.file.read(struct.calcsize("<" + form)))[0]

    def text(self):
        return self.file.read(self.number("Q")).decode()

    def skip_value(self, kind):
        if kind == STRING:
            self.text()
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in SCALAR_BYTES:
                self.file.seek(SCALAR_BYTES[inner] * count, 1)
            else:
                for _ in range(count):
                    self.skip_value(inner)
        else:
            self.file.seek(SCALAR_BYTES[kind], 1)


def tensor_positions(file):
    """Where each tensor's first byte is."""
    r = _Reader(file)
    magic, version, tensors, entries = r.number("I"), r.number("I"), r.number("Q"), r.number("Q")
    assert magic == 0x46554747 and version == 3
    for _ in range(entries):
        key, kind = r.text(), r.number("I")
        assert key != "general.alignment"
        r.skip_value(kind)
    offsets = {}
    for _ in range(tensors):
        name = r.text()
        file.seek(8 * r.number("I") + 4, 1)  # dimensions and type
        offsets[name] = r.number("Q")
    data = -(-file.tell() // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT
    return {name: data + offset for name, offset in offsets.items()}


def flip_bit_of_tensor(path, name):
    """Changes one quant of the tensor's hundredth block of Q4_1, or one bit of whatever type it has."""
    with open(path, "r+b") as file:
        at = tensor_positions(file)[name] + 100 * 20 + 4
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
