# SPDX-License-Identifier: Apache-2.0
"""Block files as docs/formats/block.md describes them, read and written without the program's code."""
import dataclasses
import json
import struct

import xxhash

FIXED = 216                # bytes before the token ids
PLANES_CHECKSUM = 192      # offset of the planes' checksum
SOURCES = {0: "native", 1: "kv", 2: "project"}


@dataclasses.dataclass
class BlockFile:
    header: bytearray
    planes: bytearray

    @classmethod
    def read(cls, path, planes=True):
        with open(path, "rb") as file:
            data = bytearray(file.read(16))
            assert data[:12] == b"ISTHMUSB" + struct.pack("<I", 1), path
            header_bytes, = struct.unpack_from("<I", data, 12)
            data += file.read(header_bytes - 16)
            return cls(data, bytearray(file.read()) if planes else bytearray())

    def write(self, path):
        """With checksums that fit."""
        struct.pack_into("<Q", self.header, PLANES_CHECKSUM, xxhash.xxh3_64_intdigest(bytes(self.planes)))
        struct.pack_into("<Q", self.header, len(self.header) - 8, xxhash.xxh3_64_intdigest(bytes(self.header[:-8])))
        path.write_bytes(self.header + self.planes)

    @property
    def tokens(self):
        return struct.unpack_from("<I", self.header, 200)[0]

    @property
    def first_token(self):
        return struct.unpack_from("<q", self.header, 176)[0]

    @property
    def source(self):
        return SOURCES[self.header[208]]

    @property
    def transfer(self):
        """Id of the transfer that brought it; empty for what the decode engine computed."""
        start = FIXED + 4 * self.tokens
        return self.header[start:start + self.header[209]].decode()

    @property
    def layout(self):
        layout_bytes, = struct.unpack_from("<I", self.header, 204)
        start = FIXED + 4 * self.tokens + self.header[209]
        return json.loads(self.header[start:start + layout_bytes])

    def plane_offset(self, name):
        """Of a plane of one row a token, in `planes`; layouts of other planes are not read here."""
        at = 0
        for plane in self.layout["planes"]:
            assert plane["kind"] == "token_rows" and plane["dtype"] == "bf16"
            if plane["name"] == name:
                return at
            at += self.tokens * plane["row_values"] * 2
        raise KeyError(name)
