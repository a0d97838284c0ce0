# SPDX-License-Identifier: Apache-2.0
"""The bytes that crossed are the bytes that answer: what changes one of them changes the answer, or is refused by name."""
import contextlib
import hashlib
import http.server
import json
import re
import struct
import threading

import httpx
import pytest

from block_file import BlockFile
from handoff_wire import compact
from harness import CLIENT, Pair, free_port, outcome, prompt

BLOCK = 64
TOKENS = 3 * BLOCK + 21
ARGS = ["--block-tokens", BLOCK, "--min-tokens", 64, "--min-tail", 2]
SIGN_BIT = 0x80


def flip_largest_value(block, plane):
    """Changes the sign of the largest element of the first token's row."""
    at = block.plane_offset(plane)
    row = struct.unpack_from("<192H", block.planes, at)
    largest = max(range(192), key=lambda i: row[i] & 0x7FFF)
    block.planes[at + 2 * largest + 1] ^= SIGN_BIT


@pytest.mark.parametrize("plane", ["L0.v", "L15.v", "L29.v", "L7.k"])
def test_one_element_of_a_landed_block_changes_the_logits(plane, tmp_path, baseline):
    ids = prompt(TOKENS, seed=2000)
    with Pair([*ARGS, "--store", tmp_path]) as pair:
        first = pair.serve.answer(ids)
        assert outcome(first.verdict) == "complete" and first.debug["computed_tokens"] == 1
        assert first.answer == baseline.answer(ids)
        pair.serve.stop()
        blocks = {path: BlockFile.read(path) for path in tmp_path.rglob("*.isb")}
        path, block = next((p, b) for p, b in blocks.items() if b.first_token == 0 and b.transfer)
        assert block.source == "project"

        block.write(path)  # nothing changed: the same file
        pair.restart_serve()
        same = pair.serve.answer(ids)
        assert outcome(same.verdict).startswith("skipped: warm") and same.debug["computed_tokens"] == 1
        assert same.debug["first_logits_xxh3"] == first.debug["first_logits_xxh3"]
        pair.serve.stop()

        flip_largest_value(block, plane)
        block.write(path)
        pair.restart_serve()
        changed = pair.serve.answer(ids)
        assert changed.debug["computed_tokens"] == 1 and pair.serve.stats()["store"]["quarantined"] == 0
        assert changed.debug["first_logits_xxh3"] != first.debug["first_logits_xxh3"]


def pack_parts(pack):
    size, = struct.unpack_from("<Q", pack)
    return json.loads(pack[8:8 + size]), pack[8 + size:]


def pack_of(header, data):
    text = compact(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def pack_digest(header, data):
    """As docs/formats/projection-pack.md says."""
    config = header["__metadata__"]["config"]
    digest = hashlib.sha256()

    def item(value):
        digest.update(struct.pack("<Q", len(value)) + value)
    item(b"isthmus-projection")
    item(config.encode())
    for layer in range(json.loads(config)["layers"]):
        for part in ("input_norm", "k", "k_bias", "k_norm", "v", "v_bias"):
            name = f"layers.{layer}.{part}"
            if name in header:
                first, last = header[name]["data_offsets"]
                item(name.encode())
                item(header[name]["dtype"].lower().encode())
                item(data[first:last])
    return digest.hexdigest()


def other_theta(pack, remake_digest):
    header, data = pack_parts(pack)
    metadata = header["__metadata__"]
    assert pack_digest(header, data) == metadata["digest"], "the digest is not what the format's page says"
    config = json.loads(metadata["config"])
    config["rope"]["theta"] *= 2
    metadata["config"] = json.dumps(config, sort_keys=True, separators=(",", ":"))
    if remake_digest:
        metadata["digest"] = pack_digest(header, data)
    return pack_of(header, data)


class Proxy:
    """Between prefill engine and decoder: hands on GETs, with replies changed by path."""

    def __init__(self, port, target, changes):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                reply = CLIENT.get(target + self.path)
                body = changes.get(self.path, lambda b: b)(reply.content)
                self.send_response(reply.status_code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def identity_of_changed_pack(pair):
    """An identity that fits the changed pack: another decoder, then."""
    def change(body):
        reply = json.loads(body)
        pack = other_theta(httpx.get(pair.serve.url + "/v1/projection", trust_env=False).content, remake_digest=True)
        fields = reply["identity"]["fields"]
        fields["projection"] = pack_parts(pack)[0]["__metadata__"]["digest"]
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        reply["identity"]["digest"] = hashlib.sha256(canonical).hexdigest()
        return json.dumps(reply).encode()
    return change


ROPE_ROWS = {
    "pack": (False, False, "digest"),
    "pack-and-its-digest": (True, False, "projection: the identity says [0-9a-f]{64}, the pack has [0-9a-f]{16}"),
    "pack-and-identity": (True, True, "none of the configured ones has identity"),
}


@pytest.mark.parametrize("name", ROPE_ROWS)
def test_another_rope_theta_in_the_pack_is_refused(name, baseline):
    remake_digest, remake_identity, reason = ROPE_ROWS[name]
    ids = prompt(TOKENS, seed=2010 + list(ROPE_ROWS).index(name))
    with Pair(ARGS) as pair:
        changes = {"/v1/projection": lambda pack: other_theta(pack, remake_digest)}
        if remake_identity:
            changes["/v1/identity"] = identity_of_changed_pack(pair)
        proxy = Proxy(port := free_port(), pair.serve.url, changes)
        try:
            pair.restart_prefill(decoder_url=f"http://127.0.0.1:{port}")
            reply = pair.serve.answer(ids)
        finally:
            proxy.close()
        assert re.search(reason, outcome(reply.verdict)), reply.verdict
        assert outcome(reply.verdict).startswith("declined: ") and reply.debug["cached_tokens"] == 0
        assert reply.answer == baseline.answer(ids)
        pair.restart_prefill()
        again = prompt(TOKENS, seed=2020 + list(ROPE_ROWS).index(name))
        reply = pair.serve.answer(again)
        assert outcome(reply.verdict) == "complete"
        assert reply.answer == baseline.answer(again)
