# SPDX-License-Identifier: Apache-2.0
"""Limits of the machine and of the engines, met by real processes."""
import contextlib
import pathlib
import re
import resource
import socket

from bench import LIMITS
from harness import Pair, outcome, prompt, wait_until

STRANGERS = 30  # at most 32 may wait for their handshake


def address_space_bytes(role):
    status = pathlib.Path(f"/proc/{role.process.pid}/status").read_text()
    return int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) * 1024


def test_connections_that_get_no_thread_are_refused(bench, baseline):
    """A thread needs a stack: with no address space left, the connection is closed and the server lives."""
    before = bench.serve.stats()["handoff"]
    pid, unlimited = bench.serve.process.pid, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with contextlib.ExitStack() as open_sockets:
        resource.prlimit(pid, resource.RLIMIT_AS, (address_space_bytes(bench.serve) + (1 << 20), resource.RLIM_INFINITY))
        try:
            for _ in range(STRANGERS):
                open_sockets.enter_context(socket.create_connection(("127.0.0.1", bench.pair.handoff_port), timeout=30))
            wait_until(lambda: "no thread could be started" in bench.serve.log(), "a connection without a thread")
        finally:
            resource.prlimit(pid, resource.RLIMIT_AS, unlimited)
    wait_until(lambda: bench.serve.stats()["handoff"]["connections"] == before["connections"] + STRANGERS, "all connections")
    wait_until(lambda: bench.serve.stats()["handoff"]["refused"] == before["refused"] + STRANGERS, "all to be refused")
    ids = prompt(300, seed=2100)
    reply = bench.serve.answer(ids)
    assert outcome(reply.verdict) == "complete"
    assert reply.answer == baseline.answer(ids)
    bench.settle()


def test_prompt_that_the_prefill_engine_refuses_is_answered_whole(baseline):
    """The engine's reason reaches the client as it is, and nothing is decoded on a part of the prompt."""
    with Pair(LIMITS, ["--kv-tokens", 512]) as pair:
        ids = prompt(700, seed=2101)
        reply = pair.serve.answer(ids)
        assert re.match("declined: invalid_argument.*expected 2 to 513 tokens, got 700", outcome(reply.verdict)), reply.verdict
        assert reply.debug == {**reply.debug, "cached_tokens": 0, "computed_tokens": 700}
        assert reply.answer == baseline.answer(ids)
        fits = prompt(400, seed=2102)
        reply = pair.serve.answer(fits)
        assert outcome(reply.verdict) == "complete"
        assert reply.answer == baseline.answer(fits)
        pair.wait_idle()
