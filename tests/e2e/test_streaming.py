# SPDX-License-Identifier: Apache-2.0
"""Streamed replies over a bridge: their form, their early start, and what a client that leaves takes with it."""
import json
import signal
import time

import pytest

from harness import Pair, disconnecting_post, events, outcome, prompt, text_of, wait_until


@pytest.fixture(scope="module")
def pair():
    # Small chunks, so that a bridge can be caught in the middle.
    with Pair(["--min-tokens", 2, "--min-tail", 2, "--early-stream-after", 0.3], ["--chunk", 64]) as p:
        yield p


def test_stream_has_the_form_that_clients_expect(pair, baseline):
    ids = prompt(200, seed=20)
    pair.serve.answer(ids)
    with pair.serve.stream(ids) as reply:
        assert reply.status_code == 200
        assert reply.headers["Content-Type"].startswith("text/event-stream")
        assert outcome(json.loads(reply.headers["X-PD-Bridge"])).startswith("skipped: warm")
        got = list(events(reply))
    assert all(kind == "data" for kind, _ in got)
    chunks = [e for _, e in got]
    assert chunks[-1] == "[DONE]"
    usage = chunks[-2]
    assert usage["choices"] == [] and usage["usage"]["prompt_tokens"] == 200
    assert usage["usage"]["isthmus"]["first_logits_xxh3"] == baseline.answer(ids)[0]
    assert chunks[-3]["choices"][0]["finish_reason"] in ("length", "stop")
    assert all(c["choices"][0]["finish_reason"] is None for c in chunks[:-3])
    assert all(c["usage"] is None for c in chunks[:-2])
    assert {c["id"] for c in chunks[:-1]} == {chunks[0]["id"]}
    assert text_of(got) == baseline.answer(ids)[1]


def test_usage_only_when_asked_for(pair):
    with pair.serve.stream(prompt(200, seed=20), stream_options={}) as reply:
        chunks = [e for kind, e in events(reply) if kind == "data" and e != "[DONE]"]
    assert all(c["choices"] and "usage" not in c for c in chunks)


def test_long_bridge_streams_before_it_is_done(pair, baseline):
    ids = prompt(2500, seed=21)
    before = pair.serve.landed_blocks()
    with pair.serve.stream(ids) as reply:
        head = json.loads(reply.headers["X-PD-Bridge"])
        assert head["pending"] is True and head["tokens"] == 2500
        assert "verdict" not in head and "bridge_error" not in head
        wait_until(lambda: pair.serve.landed_blocks() > before, "a block")
        pair.prefill.signal(signal.SIGSTOP)  # a slow prefill engine, longer than the pause between two comments
        time.sleep(6)
        pair.prefill.signal(signal.SIGCONT)
        got = list(events(reply))
    comments = [e for kind, e in got if kind == "comment"]
    assert any(c.startswith("prefill ") and c.endswith(" %") for c in comments), comments
    assert got[-1] == ("data", "[DONE]")
    assert got[-2][0] == "comment" and got[-2][1].startswith("x-pd-bridge ")
    final = json.loads(got[-2][1].removeprefix("x-pd-bridge "))
    assert outcome(final) == "complete" and "pending" not in final
    usage = [e for kind, e in got if kind == "data"][-2]["usage"]
    assert usage["bridge"] == final
    assert usage["isthmus"]["computed_tokens"] == 1
    assert usage["isthmus"]["first_logits_xxh3"] == baseline.answer(ids)[0]
    assert text_of(got) == baseline.answer(ids)[1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_client_that_leaves_cancels_the_prefill(pair, stream):
    ids = prompt(6000, seed=22 + stream)
    before = pair.serve.landed_blocks()
    connection = disconnecting_post(pair.serve, ids, stream=stream)
    wait_until(lambda: pair.serve.landed_blocks() > before, "a block")
    assert pair.prefill.running() == 1
    connection.close()
    pair.prefill.wait_idle()
    pair.serve.wait_idle()
    assert pair.serve.landed_blocks() - before < 6000 // 256, "the prefill ran to its end"
    # What landed stays a prefix hit.
    reply = pair.serve.answer(ids[:300])
    assert reply.debug["cached_tokens"] == 299
