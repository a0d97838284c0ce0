# SPDX-License-Identifier: Apache-2.0
"""The table of what a sender can do wrong on the wire, frame by frame. Driven by test_frames.py.

A prompt has 213 tokens: blocks end at 64, 128 and 192, and a tail of 20 rows at 212. What landed before the fault stays; with
less than 0.4 of the prompt the bridge is declined and the verdict has the reason, with more it is a salvage.
"""
import contextlib
import dataclasses
import struct
import time
from typing import Callable

import handoff_wire as wire
from handoff_wire import ABORT, ACK, PING, Frame
from peer import Connection, error, honest, renumbered, seal

BLOCK = 64
TOKENS = 3 * BLOCK + 21
ALL = TOKENS - 1
STALL_S = 3


@dataclasses.dataclass(frozen=True)
class FrameFault:
    name: str
    script: Callable              # plays the prefill engine (peer.ScriptedEngine)
    outcome: str                  # regular expression over harness.outcome(verdict)
    stored: int = 0               # tokens that must be in the store, no more and no less
    told: str | None = None       # regular expression over the reason in the receiver's ABORT to the sender
    refused: int = 0              # connections that the receiver refuses
    unauthenticated: int = 0


def salvage(tokens):
    return f"salvage {tokens}/{TOKENS}"


def frames(change):
    """Sends the frames that change(call, [OPEN, ROWS…, SEAL]) returns; the engine then says nothing more."""
    return lambda call: call.send(change(call, call.frames()))


def replaced(index, **fields):
    """One frame with other fields (json: merged into it); all that follow as they were."""
    def change(_, sent):
        merged = dict(fields)
        if isinstance(merged.get("json"), dict):
            merged["json"] = {**sent[index].json, **merged["json"]}
        return [*sent[:index], sent[index].changed(**merged), *sent[index + 1:]]
    return frames(change)


def opened(**json):
    return replaced(0, json=json)


def without(name):
    return frames(lambda _, sent: [sent[0].changed(json={k: v for k, v in sent[0].json.items() if k != name}), *sent[1:]])


def ordered(*indexes):
    return frames(lambda _, sent: renumbered([sent[i] for i in indexes]))


def sealed(**claims):
    """All rows, then a SEAL with other claims."""
    return frames(lambda call, sent: [*sent[:-1], seal(sent[:-1], call.plane_bytes, **claims)])


def bf16(bits):
    """The last value of the first block's rows has these bits."""
    return frames(lambda _, sent: [sent[0], sent[1].changed(payload=sent[1].payload[:-2] + struct.pack("<H", bits)), *sent[2:]])


def rows_head(change):
    """The first block's safetensors head is changed as text of the same length."""
    def changed(_, sent):
        size, = struct.unpack_from("<Q", sent[1].payload)
        head = change(sent[1].payload[8:8 + size])
        assert len(head) == size
        return [sent[0], sent[1].changed(payload=sent[1].payload[:8] + head + sent[1].payload[8 + size:]), *sent[2:]]
    return frames(changed)


def cut(index, bytes_of_frame):
    """The connection ends inside frame `index`."""
    def script(call):
        sent = call.frames()
        with contextlib.closing(call.connect()) as connection:
            connection.send_acknowledged(sent[:index])
            connection.send(sent[index].bytes()[:bytes_of_frame])
    return script


def cut_ping(call):
    with contextlib.closing(call.connect()) as connection:
        connection.send_acknowledged(call.frames()[:3])
        connection.send(Frame(PING, {}, sequence=3).bytes()[:20])


def cut_handshake(call):
    """Half a proof. The engine then says that it gave up."""
    with contextlib.closing(Connection(call.engine.handoff_port)) as connection:
        said, _ = wire.proof(call.engine.secret, wire.read_exact(connection.sock, wire.GREETING_BYTES), call.body["transfer"])
        connection.send(said[:40])
    return error(503, "unavailable", "lost the decoder")


def wrong_secret(call):
    with contextlib.suppress(ConnectionError):
        call.connect(secret=b"a secret that nobody else holds").close()
        raise AssertionError("a wrong secret was taken")
    return error(401, "unauthenticated", "the decoder refused the token")


def unknown_transfer(call):
    with contextlib.closing(call.connect(transfer="00" * 16)) as connection:
        connection.send(call.frames()[0])
        assert connection.closed_by_peer()
    return error(503, "unavailable", "the decoder does not know the transfer")


def replay_afterwards(call):
    result = honest(call)
    with contextlib.closing(call.connect()) as connection:
        connection.send(*call.frames())
        assert connection.closed_by_peer()
    return result


def second_connection(call):
    """A copy of the transfer while the first runs."""
    sent = call.frames()
    with contextlib.closing(call.connect()) as first:
        first.send(*sent[:2])
        with contextlib.closing(call.connect()) as second:
            second.send(*sent)
            assert second.closed_by_peer()
        first.send(*sent[2:])
        call.heard = first.last_word()
    return call.report()


def after_seal(*more):
    """Frames after the SEAL change nothing."""
    def script(call):
        sent = call.frames()
        connection = call.connect()
        with contextlib.closing(connection):
            connection.send(*sent, *(f(sent).changed(sequence=len(sent) + i) for i, f in enumerate(more)))
            call.heard = connection.last_word()
        return call.report()
    return script


def pauses_with_pings(call):
    """Computes for longer than the receiver waits for silence, and says every second that it lives."""
    sent = call.frames()
    with contextlib.closing(call.connect()) as connection:
        connection.send_acknowledged(sent[:2])
        so_far = sent[:2]
        for _ in range(2 * STALL_S):
            time.sleep(1)
            so_far.append(Frame(PING, {}, sequence=len(so_far)))
            connection.send(so_far[-1])
        so_far += [f.changed(sequence=len(so_far) + i) for i, f in enumerate(sent[2:-1])]
        connection.send(*so_far[-3:], seal(so_far, call.plane_bytes))
        call.heard = connection.last_word()
    return call.report()


def slow(index):
    """From frame `index` on a byte now and then, until the receiver closes."""
    def script(call):
        sent = call.frames()
        with contextlib.closing(call.connect()) as connection:
            connection.send(*sent[:index])
            end = time.monotonic() + 4 * STALL_S
            with contextlib.suppress(ConnectionError):
                for byte in sent[index].bytes():
                    assert time.monotonic() < end, "the receiver has more patience than it should"
                    connection.sock.sendall(bytes([byte]))
                    time.sleep(0.02)
    return script


def silent_after(index):
    def script(call):
        with contextlib.closing(call.connect()) as connection:
            connection.send(*call.frames()[:index])
            connection.last_word()
    return script


def abort_after(index):
    def change(_, sent):
        reason = Frame(ABORT, {"code": "resource_exhausted", "message": "the engine ran out of pages"}, sequence=index)
        return [*sent[:index], reason]
    return frames(change)


def early_seal(call, sent):
    """Honest: two blocks and no more."""
    kept = sent[:3]
    rows_bytes = call.plane_bytes * 2 * BLOCK // ALL
    return [*kept, seal(kept, rows_bytes)]


def claims_success_after(index):
    def script(call):
        if index == 0:
            return call.report()
        connection = call.connect()
        connection.send_acknowledged(call.frames()[:index])
        call.engine.keep.append(connection)  # stays open
        return call.report()
    return script


def says(status, body):
    return lambda call: (status, body)


def refused(name, script, reason, stored=0):
    """The receiver ends the transfer and tells the sender why; so does the verdict when nothing can be salvaged."""
    outcome = salvage(stored) if stored >= 0.4 * TOKENS else f"declined: .*(?:{reason})"
    return FrameFault(name, script, outcome, stored, reason)


def cut_off(name, script, stored=0):
    return FrameFault(name, script, salvage(stored) if stored >= 0.4 * TOKENS else "declined: unavailable.*the peer's end",
                      stored)


OTHER = "ab" * 32
HEAD = wire.HEADER.size

FAULTS = [
    FrameFault("no-fault", honest, "complete", ALL),

    FrameFault("cut-in-handshake", cut_handshake, "declined: .*lost the decoder", refused=1),
    cut_off("cut-before-open", cut(0, 0)),
    cut_off("cut-in-open-header", cut(0, 10)),
    cut_off("cut-in-open-json", cut(0, HEAD + 100)),
    cut_off("cut-after-open", cut(1, 0)),
    cut_off("cut-in-rows-header", cut(3, 10), 2 * BLOCK),
    cut_off("cut-in-rows-json", cut(3, HEAD + 5), 2 * BLOCK),
    cut_off("cut-in-rows-payload", cut(3, HEAD + 100_000), 2 * BLOCK),
    cut_off("cut-in-first-rows", cut(1, HEAD + 100_000)),
    cut_off("cut-between-rows", cut(3, 0), 2 * BLOCK),
    cut_off("cut-in-ping", cut_ping, 2 * BLOCK),
    cut_off("cut-before-seal", cut(5, 0), ALL),
    cut_off("cut-in-seal-header", cut(5, 10), ALL),
    cut_off("cut-in-seal-json", cut(5, HEAD + 5), ALL),

    refused("rows-twice", ordered(0, 1, 2, 2, 3, 4), r"ROWS \[64, 128\).*expected \[128, 192\)", 2 * BLOCK),
    refused("first-rows-twice", ordered(0, 1, 1, 2, 3, 4), r"ROWS \[0, 64\).*expected \[64, 128\)", BLOCK),
    refused("rows-out-of-order", ordered(0, 1, 3, 2, 4), r"ROWS \[128, 192\).*expected \[64, 128\)", BLOCK),
    refused("gap", ordered(0, 1, 2, 4), r"ROWS \[192, 212\).*expected \[128, 192\)", 2 * BLOCK),
    refused("rows-before-open", ordered(1, 0, 2), "payload of \\d+ bytes, limit here 0"),
    refused("open-twice", ordered(0, 1, 0), "unexpected OPEN", BLOCK),
    refused("ack-from-the-sender", frames(lambda _, sent: [sent[0], Frame(ACK, {"landed": ALL, "sealed": True}, sequence=1)]),
            "unexpected ACK"),
    refused("rows-of-other-planes", replaced(1, json={"plane": 1, "planes": 59}), "from plane 1, expected .* plane 0"),
    refused("rows-of-planes-beyond", replaced(1, json={"planes": 61}), r"planes 0\+61 of 60"),
    refused("rows-json-without-field", replaced(1, json=b'{"first":0,"last":64}'), "plane"),
    refused("rows-json-broken", replaced(1, json=b'{"first":0,'), "handoff frame"),
    refused("rows-json-a-list", replaced(1, json=b"[0,64,0,60]"), "not an object"),

    refused("json-length-over-the-limit", replaced(1, json_bytes=65_537), "JSON of 65537 bytes, limit 65536"),
    refused("payload-length-over-the-limit", replaced(2, payload_bytes=(64 << 20) + 1), "payload of 67108865 bytes", BLOCK),
    refused("payload-length-4-gib", replaced(1, payload_bytes=0xFFFFFFFF), "payload of 4294967295 bytes"),
    refused("payload-larger-than-a-block", replaced(1, payload_bytes=32 << 20), "payload of 33554432 bytes, limit here"),
    refused("payload-on-open", replaced(0, payload=b"rows"), "payload of 4 bytes, limit here 0"),
    refused("magic", replaced(1, magic=b"ISHX"), "bad magic"),
    refused("version", replaced(1, version=2), "version 2, this side speaks 1"),
    refused("type-0", replaced(1, type=0), "unknown type 0"),
    refused("type-7", replaced(1, type=7), "unknown type 7"),
    refused("sequence", replaced(1, sequence=2), "sequence 2, expected 1"),
    refused("checksum", replaced(1, checksum=1), "checksum of ROWS: expected 0000000000000001"),

    refused("identity", opened(identity=OTHER), f"identity: .*{OTHER}"),
    refused("ids-digest", opened(ids=OTHER), f"ids: .*{OTHER}"),
    refused("producer", opened(producer=OTHER), f"producer: .*{OTHER}"),
    refused("mode", opened(mode="kv"), "mode: .*kv"),
    refused("tokens", opened(tokens=TOKENS + 1), f"tokens: {TOKENS} here, {TOKENS + 1} there"),
    refused("first", opened(first=BLOCK), "first: 0 here, 64 there"),
    refused("last", opened(last=ALL + 1), f"last: {ALL} here, {ALL + 1} there"),
    refused("plane-bytes", opened(plane_bytes=1), "plane_bytes: "),
    refused("other-transfer-in-open", opened(transfer="00" * 16), "transfer: "),
    refused("layout", opened(layout={"block_tokens": 128, "planes": []}), "layout"),
    refused("open-field-missing", without("ids"), "ids"),
    refused("open-field-more", opened(weights="none"), "weights"),

    refused("nan", bf16(0x7FC0), "non-finite values"),
    refused("infinity", bf16(0x7F80), "non-finite values"),
    refused("minus-infinity", bf16(0xFF80), "non-finite values"),
    refused("plane-renamed", rows_head(lambda head: head.replace(b'"L0.k"', b'"L0.x"')), "plane L0.k is missing"),
    refused("plane-of-another-type", rows_head(lambda head: head.replace(b'"BF16"', b'"F16" ', 1)), "expected bf16|plane L0.k"),
    refused("plane-of-another-shape", rows_head(lambda head: head.replace(b"[64,192]", b"[192,64]", 1)), "plane L0.k"),
    refused("payload-head-broken", rows_head(lambda head: b"x" * len(head)), "handoff ROWS"),

    refused("seal-frames", sealed(frames=4), "SEAL: claims .* in 4 frames", ALL),
    refused("seal-bytes", sealed(bytes=1), "SEAL: claims .* 1 bytes", ALL),
    refused("seal-digest", sealed(digest="0" * 16), "SEAL: claims .* digest 0000000000000000", ALL),
    refused("seal-last", sealed(last=ALL + 1), "SEAL: claims rows to 213", ALL),
    refused("seal-without-rows", frames(lambda call, sent: [sent[0], seal(sent[:1], call.plane_bytes, last=ALL)]),
            "SEAL: claims rows to 212 .* received rows to 0"),
    FrameFault("seal-early", frames(early_seal), f"partial 128/{TOKENS}", 2 * BLOCK),
    FrameFault("seal-twice", after_seal(lambda sent: sent[-1]), "complete", ALL),
    FrameFault("rows-after-seal", after_seal(lambda sent: sent[1], lambda sent: sent[2]), "complete", ALL),

    FrameFault("transfer-replayed", replay_afterwards, "complete", ALL, refused=1),
    FrameFault("transfer-twice-at-once", second_connection, "complete", ALL, refused=1),
    FrameFault("transfer-unknown", unknown_transfer, "declined: .*does not know the transfer", refused=1),
    FrameFault("token", wrong_secret, "declined: unauthenticated", refused=1, unauthenticated=1),

    FrameFault("pauses-with-pings", pauses_with_pings, "complete", ALL),
    FrameFault("slow-rows", slow(1), f"declined: .*no row for {STALL_S} s"),
    FrameFault("slow-after-two-blocks", slow(3), salvage(2 * BLOCK), 2 * BLOCK),
    FrameFault("silent-after-open", silent_after(1), f"declined: .*no row for {STALL_S} s"),
    FrameFault("silent-after-two-blocks", silent_after(3), salvage(2 * BLOCK), 2 * BLOCK),

    FrameFault("abort-after-open", abort_after(1), "declined: resource_exhausted: peer: the engine ran out of pages"),
    FrameFault("abort-after-two-blocks", abort_after(3), salvage(2 * BLOCK), 2 * BLOCK),
    FrameFault("success-without-a-transfer", claims_success_after(0), "declined: .*reported 212 shipped tokens before a SEAL"),
    FrameFault("success-in-mid-transfer", claims_success_after(3), salvage(2 * BLOCK), 2 * BLOCK),
    FrameFault("prompt-too-long-for-the-engine",
               says(*error(400, "invalid_argument", "prefill call: field 'ids': expected 2 to 128 tokens, got 213")),
               "declined: invalid_argument.*expected 2 to 128 tokens, got 213"),
    FrameFault("engine-error-without-json", says(500, b"<html>oops</html>"), "declined: unavailable.*HTTP status 500"),
    FrameFault("report-that-is-no-report", says(200, b"[]"), "declined: .*prefill report"),
]
