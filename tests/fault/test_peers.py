# SPDX-License-Identifier: Apache-2.0
"""Peers that are not what they should be: strangers on the handoff port, a decoder with other arithmetic, clients that
leave, and many clients at once."""
import os
import re
import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

import handoff_wire as wire
from bench import PATIENT_LIMITS
from harness import Baseline, Pair, Serve, disconnecting_post, events, outcome, prompt, wait_until
from patch_gguf import copy_with_float


def signed_proof(secret):
    """What a sender that holds `secret` says, for a transfer that nobody expects."""
    return lambda greeting: wire.proof(secret, greeting, os.urandom(16).hex())[0]


STRANGERS = {
    "says-nothing": lambda greeting: b"",
    "garbage": lambda greeting: os.urandom(4096),
    "http": lambda greeting: b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n",
    "echo": lambda greeting: (greeting * 3)[:64],
    "wrong-secret": signed_proof(b"a secret that nobody else holds"),
    "unexpected-transfer": signed_proof(b"a secret that both boxes hold"),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_stranger_on_the_handoff_port_is_refused(name, bench, baseline):
    before = bench.serve.stats()["handoff"]
    with socket.create_connection(("127.0.0.1", bench.pair.handoff_port), timeout=30) as s:
        greeting = wire.read_exact(s, wire.GREETING_BYTES)
        assert struct.unpack("<I", greeting[4:8]) == (1,)
        said = STRANGERS[name](greeting)
        s.sendall(said)
        if not said:
            s.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while more := s.recv(4096):
                received += more
        except ConnectionResetError:
            pass
    assert len(received) <= 32, "more than the handshake's answer came back"
    wait_until(lambda: bench.serve.stats()["handoff"]["refused"] == before["refused"] + 1, "the refusal to be counted")
    after = bench.serve.stats()["handoff"]
    assert after["transfers"] == before["transfers"]
    assert (after["unauthenticated"] > before["unauthenticated"]) == (name in ("garbage", "http", "echo", "wrong-secret"))
    ids = prompt(300, seed=10 + list(STRANGERS).index(name))
    reply = bench.serve.answer(ids)
    assert outcome(reply.verdict) == "complete"
    assert reply.answer == baseline.answer(ids)
    bench.settle()


def test_decoder_with_another_rope_theta_takes_no_kv_rows(tmp_path, alone):
    patched = tmp_path / "theta.gguf"
    copy_with_float(patched, "llama.rope.freq_base", 50000.0)
    ids = prompt(400, seed=20)
    with Serve(model=patched) as own:
        expected = Baseline(own).answer(ids)
    assert expected != alone.answer(ids).answer, "the patch changes nothing"
    with Pair(["--min-tokens", 256, "--min-tail", 2, "--capture", "kv"], serve_model=patched) as pair:
        reply = pair.serve.answer(ids)
        assert outcome(reply.verdict).startswith("declined: ")
        error = reply.verdict["bridge_error"]
        assert "rope.theta" in error and "100000" in error and "50000" in error
        assert reply.debug["cached_tokens"] == 0
        assert reply.answer == expected
        pair.wait_idle()


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_client_that_leaves_frees_everything(phase, bench, baseline):
    ids = prompt(2600 if phase == "prefill" else 300, seed=30 + len(phase))
    landed = bench.serve.landed_blocks()
    if phase == "prefill":
        connection = disconnecting_post(bench.serve, ids)
        wait_until(lambda: bench.serve.landed_blocks() > landed, "a block")
        connection.close()
    else:
        with bench.serve.stream(ids, max_tokens=6000, ignore_eos=True) as reply:  # an answer that does not end by itself
            arriving = events(reply)  # kept: a generator that nobody holds is closed, and the connection with it
            kind, event = next(arriving)
            assert kind == "data" and event["choices"][0]["finish_reason"] is None
            assert bench.serve.stats()["engine"]["active"] == 1
    bench.settle()
    small = prompt(300, seed=50 + len(phase))
    reply = bench.serve.answer(small)
    assert outcome(reply.verdict) == "complete"
    assert reply.answer == baseline.answer(small)


def test_parallel_clients_get_the_serial_answers(baseline):
    """Short prompts that the decoder reads itself, cold ones that are bridged, and repeats of both, all at once. Bridges
    beyond the receiver's eight are declined, with the same answers."""
    short = [prompt(60 + 15 * i, seed=200 + i) for i in range(10)]
    cold = [prompt(400 + 37 * i, seed=220 + i) for i in range(10)]
    repeats = [ids for pair in zip(short, cold) for ids in pair]
    requests = [ids for group in zip(short, cold, repeats[:10], repeats[10:]) for ids in group]
    with Pair(PATIENT_LIMITS, ["--chunk", 128]) as pair, ThreadPoolExecutor(16) as pool:
        pair.serve.answer(prompt(300, seed=199))
        pair.wait_idle()
        fds = pair.serve.open_fds()
        replies = list(pool.map(pair.serve.answer, requests))
        outcomes = [outcome(r.verdict) for r in replies]
        assert outcomes.count("complete") >= 8, outcomes
        allowed = "complete$|skipped: (short|warm)|declined: .*8 transfers are running"
        assert [o for o in outcomes if not re.match(allowed, o)] == []
        for ids, reply in zip(requests, replies):
            assert reply.answer == baseline.answer(ids), f"{len(ids)} tokens, {outcome(reply.verdict)}"
        pair.wait_idle()
        wait_until(lambda: pair.serve.open_fds() <= fds + 2, "the descriptors to be closed")
