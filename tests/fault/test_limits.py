# SPDX-License-Identifier: Apache-2.0
"""Limits of the machine and of the engines, met by real processes."""
import contextlib
import pathlib
import re
import resource
import socket

from bench import LIMITS
from harness import BLOCK, CONTEXT, ROW_BYTES, Pair, outcome, prompt, wait_until

STRANGERS = 30  # at most 32 may wait for their handshake


def address_space_bytes(role):
    status = pathlib.Path(f"/proc/{role.process.pid}/status").read_text()
    return int(re.search(r"VmSize:\s+(\d+) kB", status)[1]) * 1024


def ram_mib(tokens):
    """Of a prompt's blocks in memory: rows and 4-byte ids."""
    return -(-tokens * (ROW_BYTES + 4) // (1 << 20))


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


def test_prompt_that_the_store_cannot_hold_is_not_prefilled(baseline):
    """16 MiB hold two blocks of one prompt: no row is asked for beyond them, and none at all when they are too few."""
    room = 2 * BLOCK
    with Pair([*LIMITS, "--ram-store-mib", 16], ["--chunk", 128]) as pair:
        assert re.search(f"room for {room} tokens .* context is {CONTEXT}: .* --ram-store-mib {ram_mib(CONTEXT)}\n", pair.serve.log())
        part = prompt(900, seed=2103)
        reply = pair.serve.answer(part)
        assert outcome(reply.verdict) == f"partial {room}/900"
        assert (reply.verdict["prefilled"], reply.verdict["shipped"]) == (room, room)
        assert reply.debug == {**reply.debug, "cached_tokens": room, "computed_tokens": 900 - room}
        assert reply.answer == baseline.answer(part)
        pair.wait_idle()

        pair.prefill.kill()  # whoever were to ask it would say that it is gone
        transfers = pair.serve.stats()["handoff"]["connections"]
        for ids, cached in ((part, room), (prompt(1500, seed=2104), 0)):
            reply = pair.serve.answer(ids)
            assert outcome(reply.verdict) == f"skipped: store too small: {len(ids)} tokens, room for {room}"
            assert reply.debug == {**reply.debug, "cached_tokens": cached, "computed_tokens": len(ids) - cached}
            assert reply.answer == baseline.answer(ids)
        assert pair.serve.stats()["handoff"]["connections"] == transfers


def test_memory_does_not_bound_prompts_where_a_disk_takes_their_blocks(tmp_path, baseline):
    with Pair([*LIMITS, "--ram-store-mib", 0, "--store", tmp_path], ["--chunk", 128]) as pair:
        assert "--ram-store-mib" not in pair.serve.log()
        ids = prompt(1500, seed=2105)
        for expected in ("complete", "skipped: warm"):
            reply = pair.serve.answer(ids)
            assert outcome(reply.verdict).startswith(expected)
            assert reply.debug["computed_tokens"] == 1
            assert reply.answer == baseline.answer(ids)
            pair.serve.wait_written()
