# SPDX-License-Identifier: Apache-2.0
"""The sender's side of the handoff from docs/formats/handoff.md alone, sharing no code with the program: frames as bytes,
recordings back into frames, and the handshake."""
import dataclasses
import hashlib
import hmac
import json
import os
import struct

import xxhash

OPEN, ROWS, SEAL, ACK, ABORT, PING = range(1, 7)
HEADER = struct.Struct("<4sBBHIIIIQ")  # magic, version, type, zero, JSON bytes, payload bytes, sequence, zero, checksum
CHECKED = HEADER.size - 8              # of the header, what its checksum covers
GREETING_BYTES, ANSWER_BYTES = 24, 32


def xxh3(*parts):
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    return digest.intdigest()


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


@dataclasses.dataclass
class Frame:
    """One frame; bytes() makes lengths and checksum that fit, unless told otherwise by the fields of the same name."""
    type: int
    json: dict | bytes
    payload: bytes = b""
    sequence: int = 0
    magic: bytes = b"ISHF"
    version: int = 1
    json_bytes: int | None = None
    payload_bytes: int | None = None
    checksum: int | None = None

    def head(self):
        """Header and JSON."""
        text = self.json if isinstance(self.json, bytes) else compact(self.json)
        fields = (self.magic, self.version, self.type, 0, len(text) if self.json_bytes is None else self.json_bytes,
                  len(self.payload) if self.payload_bytes is None else self.payload_bytes, self.sequence, 0)
        if self.checksum is None:
            self.checksum = xxh3(HEADER.pack(*fields, 0)[:CHECKED], text, self.payload)
        return HEADER.pack(*fields, self.checksum) + text

    def bytes(self):
        return self.head() + self.payload

    def changed(self, **fields):
        """The same frame with other fields, and a checksum that fits them unless it is one of them."""
        return dataclasses.replace(self, **{"checksum": None, **fields})


def parse(data):
    """The frames of a recording, in order."""
    frames, at = [], 0
    while at < len(data):
        magic, version, kind, _, json_bytes, payload_bytes, sequence, _, checksum = HEADER.unpack_from(data, at)
        assert (magic, version) == (b"ISHF", 1), f"no frame at {at}"
        text = at + HEADER.size
        payload = text + json_bytes
        end = payload + payload_bytes
        assert checksum == xxh3(data[at:at + CHECKED], data[text:end]), f"checksum of the frame at {at}"
        frames.append(Frame(kind, json.loads(data[text:payload]), bytes(data[payload:end]), sequence, checksum=checksum))
        at = end
    return frames


def seal_digest(frames):
    """What SEAL says about the frames before it (whose bytes were made)."""
    return f"{xxh3(b''.join(struct.pack('<Q', f.checksum) for f in frames)):016x}"


def safetensors(tensors):
    """A buffer of (name, dtype, shape, bytes), in the order given; the header is padded to eight bytes."""
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = compact(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors)


def read_exact(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError(f"the receiver closed after {len(data)} of {count} bytes")
        data += more
    return data


def read_frame(sock):
    header = read_exact(sock, HEADER.size)
    _, _, kind, _, json_bytes, payload_bytes, sequence, _, checksum = HEADER.unpack(header)
    body = read_exact(sock, json_bytes + payload_bytes)
    assert checksum == xxh3(header[:CHECKED], body)
    return Frame(kind, json.loads(body[:json_bytes]), body[json_bytes:], sequence, checksum=checksum)


def proof(secret, greeting, transfer):
    """(what the sender says, what the receiver must answer)."""
    assert greeting[:8] == b"ISHK" + struct.pack("<I", 1)
    nonce, identifier = os.urandom(16), bytes.fromhex(transfer)
    signed = greeting[8:] + nonce + identifier

    def mac(role):
        return hmac.new(secret, role + signed, hashlib.sha256).digest()
    return identifier + nonce + mac(b"isthmus sender"), mac(b"isthmus receiver")


def offer_handshake(sock, secret, transfer):
    said, expected = proof(secret, read_exact(sock, GREETING_BYTES), transfer)
    sock.sendall(said)
    assert read_exact(sock, ANSWER_BYTES) == expected, "the receiver does not hold the secret"
