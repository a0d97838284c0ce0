# SPDX-License-Identifier: Apache-2.0
"""The main job: a prompt is read by the prefill engine and answered by the decode engine, with the same bits.

The decode engine of the main pair refuses to compute more than one prompt token, so that every answer it gives proves
that all other rows came from blocks.
"""
import pytest

from harness import BLOCK, CONTEXT, ROW_BYTES, Pair, Serve, outcome, prompt

BRIDGE_ALL = ["--min-tokens", 2, "--min-tail", 2]
LONG = 7900


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    with Pair([*BRIDGE_ALL, "--store", store, "--test-max-prompt-compute", 1]) as p:
        yield p


def check_complete(reply, tokens, first=0):
    """The verdict and the counters of a bridge that brought rows [first, tokens - 1)."""
    v, rows = reply.verdict, tokens - 1 - first
    assert outcome(v) == "complete"
    assert (v["skipped"], v["tokens"], v["transport"]) == (False, tokens, "tcp")
    assert (v["B"], v["cached_prefix"], v["shipped"]) == (tokens - 1, first, rows)
    assert v["prefilled"] + v["reused_by_engine"] == tokens - 1
    assert v["blocks"] == -(-rows // BLOCK)
    assert v["tail_rows"] == rows % BLOCK
    assert v["coverage"] == pytest.approx((tokens - 1) / tokens, abs=1e-4)
    assert round(v["pulled_gb"] * 1e9) == rows * ROW_BYTES
    assert 0 < v["t_assembled"] <= v["t_bridge_total"]
    assert reply.debug["computed_tokens"] == 1
    assert reply.debug["cached_tokens"] == tokens - 1
    assert reply.usage["prompt_tokens"] == tokens


def test_bridged_bytes_are_used(pair, baseline):
    ids = prompt(1500, seed=1)
    before = pair.serve.stats()
    reply = pair.serve.answer(ids)
    after = pair.serve.stats()
    check_complete(reply, 1500)
    assert reply.verdict["reused_by_engine"] == 0
    assert reply.verdict["prefilled"] == 1499
    assert after["bridge"]["payload_bytes"] - before["bridge"]["payload_bytes"] == 1499 * ROW_BYTES
    assert after["bridge"]["complete"] - before["bridge"]["complete"] == 1
    assert after["handoff"]["sealed"] - before["handoff"]["sealed"] == 1
    assert after["engine"]["prompt_tokens_computed"] - before["engine"]["prompt_tokens_computed"] == 1
    assert reply.answer == baseline.answer(ids)


def test_warm_repeat_is_skipped(pair, baseline):
    ids = prompt(1200, seed=2)
    check_complete(pair.serve.answer(ids), 1200)
    reply = pair.serve.answer(ids)
    assert outcome(reply.verdict).startswith("skipped: warm")
    assert (reply.verdict["cached_prefix"], reply.verdict["tail"]) == (1199, 1)
    assert reply.debug["computed_tokens"] == 1
    assert reply.answer == baseline.answer(ids)


def test_second_turn_ships_only_new_rows(pair, baseline):
    ids = prompt(1400, seed=3)
    check_complete(pair.serve.answer(ids[:600], max_tokens=1), 600)
    reply = pair.serve.answer(ids)
    check_complete(reply, 1400, first=2 * BLOCK)
    assert reply.verdict["reused_by_engine"] == 2 * BLOCK
    assert reply.verdict["prefilled"] == 1399 - 2 * BLOCK
    assert reply.answer == baseline.answer(ids)


def test_restart_restores_the_store(pair, baseline):
    ids = prompt(900, seed=4)
    check_complete(pair.serve.answer(ids), 900)
    pair.restart_serve()
    reply = pair.serve.answer(ids)
    assert outcome(reply.verdict).startswith("skipped: warm")
    assert reply.debug["cached_tokens"] == 899
    assert reply.answer == baseline.answer(ids)


def test_bridge_only_brings_blocks_and_generates_nothing(pair, baseline):
    ids = prompt(700, seed=5)
    before = pair.serve.stats()["engine"]
    reply = pair.serve.answer(ids, headers={"X-PD-Bridge-Only": "1"})
    assert reply.body["object"] == "pd.bridge"
    assert reply.body["bridge"] == reply.verdict
    assert outcome(reply.verdict) == "complete"
    assert pair.serve.stats()["engine"] == before
    reply = pair.serve.answer(ids)
    assert outcome(reply.verdict).startswith("skipped: warm")
    assert reply.answer == baseline.answer(ids)


def test_short_prompts_are_not_bridged(alone):
    """The defaults, and that the switch which forbids prompt work bites."""
    with Pair(["--test-max-prompt-compute", 1]) as p:
        reply = p.serve.complete(prompt(1023, seed=6))
        assert outcome(reply.verdict).startswith("skipped: short: 1023 tokens")
        assert reply.status == 503 and "1023 prompt tokens to compute" in reply.body["error"]["message"]
        check_complete(p.serve.answer(prompt(1024, seed=7)), 1024)


# Prefill chunk, threads on both sides, whether the rows are projected again although both models are the same.
CONFIGURATIONS = [
    pytest.param("project", 512, 0, False, (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17, LONG), id="project-512"),
    pytest.param("project", 64, 1, True, (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17), id="project-again-64-1thread"),
    pytest.param("project", 2048, 0, True, (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17), id="project-again-2048"),
    pytest.param("project", 1, 1, True, (BLOCK + 1,), id="project-again-1-1thread"),
    pytest.param("kv", 2048, 0, False, (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17, LONG), id="kv-2048"),
    pytest.param("kv", 64, 1, False, (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17), id="kv-64-1thread"),
]


@pytest.mark.parametrize("capture, chunk, threads, again, lengths", CONFIGURATIONS)
def test_bit_identity(capture, chunk, threads, again, lengths, baseline):
    serve_args = [*BRIDGE_ALL, "--capture", capture, "--threads", threads, "--test-max-prompt-compute", 1]
    prefill_args = ["--chunk", chunk, "--threads", threads, *(["--project-again"] if again else [])]
    with Pair(serve_args, prefill_args) as p:
        for tokens in lengths:
            ids = prompt(tokens, seed=100 + tokens)
            reply = p.serve.answer(ids)
            check_complete(reply, tokens)
            assert reply.verdict["mode"] == capture
            assert reply.answer == baseline.answer(ids), f"{tokens} tokens"
        if chunk > 1:
            check_resumed(p, baseline)


def check_resumed(p, baseline):
    """The second of two prompts, whose first blocks were shipped for the first one."""
    tokens = 5 * BLOCK + 17
    ids = prompt(tokens, seed=99)
    check_complete(p.serve.answer(ids[: BLOCK + 9], max_tokens=1), BLOCK + 9)
    reply = p.serve.answer(ids)
    check_complete(reply, tokens, first=BLOCK)
    assert reply.answer == baseline.answer(ids), "resumed"


def test_oversized_prompt_is_a_client_error(alone):
    for tokens in (CONTEXT, CONTEXT + 1, 3 * CONTEXT):
        reply = alone.complete(prompt(tokens, seed=8))
        assert reply.status == 400
        assert str(tokens) in reply.body["error"]["message"]
    with Serve("--prefill", "http://127.0.0.1:9", "--handoff-port", 0) as serve:
        reply = serve.complete(prompt(CONTEXT, seed=8))
        assert reply.status == 400
        assert reply.verdict["skipped"] is True
