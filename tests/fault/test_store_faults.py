# SPDX-License-Identifier: Apache-2.0
"""Faults of the decode box: its disk, its memory, its store, and its own death."""
import subprocess

import httpx
import pytest

from bench import LIMITS
from harness import BINARY, BLOCK, MODEL, InBackground, Pair, outcome, prompt, wait_until

TOKENS = 12 * BLOCK


def block_files(store):
    return sorted(store.rglob("*.isb"))


def unfinished_files(store):
    return list(store.rglob("*.tmp"))


def test_second_server_on_one_store_refuses_to_start(bench):
    command = [BINARY, "serve", "--model", MODEL, "--port", "0", "--handoff-port", "0", "--store", str(bench.store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert str(bench.store) in done.stderr and "another process" in done.stderr
    assert bench.serve.answer(prompt(280, seed=1)).status == 200


def test_serve_killed_in_mid_bridge_restores_what_was_durable(tmp_path, baseline):
    ids = prompt(TOKENS, seed=2)
    with Pair([*LIMITS, "--store", tmp_path], ["--chunk", 128]) as pair:
        pending = InBackground(pair.serve.answer, ids)
        wait_until(lambda: pair.serve.stats()["store"]["disk_writes"] >= 3, "three durable blocks")
        pair.serve.kill()
        with pytest.raises(httpx.HTTPError):
            pending.result()
        pair.prefill.wait_idle()
        pair.restart_serve(kill=True)
        assert unfinished_files(tmp_path) == []
        assert pair.serve.stats()["store"]["quarantined"] == 0
        reply = pair.serve.answer(ids)
        assert outcome(reply.verdict) == "complete"
        assert reply.verdict["cached_prefix"] >= 3 * BLOCK
        assert reply.verdict["shipped"] == TOKENS - 1 - reply.verdict["cached_prefix"]
        assert reply.debug["computed_tokens"] == 1
        assert reply.answer == baseline.answer(ids)


def test_damaged_block_is_a_miss(tmp_path, baseline):
    ids = prompt(4 * BLOCK + 50, seed=3)
    with Pair([*LIMITS, "--store", tmp_path]) as pair:
        assert outcome(pair.serve.answer(ids).verdict) == "complete"
        pair.serve.stop()
        sizes = {path: path.stat().st_size for path in block_files(tmp_path)}
        assert len(sizes) >= 5
        # The largest files are whole blocks, one of the first four of the prompt.
        whole = [path for path, size in sizes.items() if size == max(sizes.values())]
        with open(whole[0], "r+b") as file:
            file.seek(-1000, 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 0x40]))
        pair.restart_serve()
        # The index says warm; reading says otherwise, and the prompt is routed again: the missing rows come over the bridge.
        reply = pair.serve.answer(ids)
        assert outcome(reply.verdict) == "complete"
        assert reply.verdict["cached_prefix"] % BLOCK == 0 and reply.verdict["cached_prefix"] < 4 * BLOCK
        assert reply.verdict["shipped"] == len(ids) - 1 - reply.verdict["cached_prefix"]
        assert reply.debug["computed_tokens"] == 1
        assert pair.serve.stats()["store"]["quarantined"] == 1
        assert len(list(tmp_path.rglob("quarantine/*.isb"))) == 1
        assert reply.answer == baseline.answer(ids)
        reply = pair.serve.answer(ids)
        assert reply.debug["computed_tokens"] == 1
        assert reply.answer == baseline.answer(ids)


def test_below_the_disk_floor_blocks_stay_in_memory(tmp_path, baseline):
    ids = prompt(2 * BLOCK + 100, seed=4)
    with Pair([*LIMITS, "--store", tmp_path, "--disk-floor-mib", 1 << 34]) as pair:
        reply = pair.serve.answer(ids)
        assert outcome(reply.verdict) == "complete"
        assert reply.debug["computed_tokens"] == 1
        assert reply.answer == baseline.answer(ids)
        pair.serve.wait_written()
        assert pair.serve.stats()["store"]["floor_skipped_writes"] >= 3
        assert block_files(tmp_path) == [] and unfinished_files(tmp_path) == []
        assert outcome(pair.serve.answer(ids).verdict).startswith("skipped: warm")


def test_below_the_memory_floor_the_decoder_answers_alone(baseline):
    ids = prompt(2 * BLOCK + 100, seed=5)
    with Pair([*LIMITS, "--memory-floor-mib", 1 << 34]) as pair:
        for _ in range(2):
            reply = pair.serve.answer(ids)
            assert outcome(reply.verdict).startswith("declined: ")
            assert "memory" in reply.verdict["bridge_error"]
            assert reply.debug["cached_tokens"] == 0
            assert reply.answer == baseline.answer(ids)
        pair.wait_idle()
