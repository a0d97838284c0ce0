# SPDX-License-Identifier: Apache-2.0
"""Drives the table of frame faults: a real decode server, and a prefill engine written in Python that replays what a real
one recorded, with one thing wrong."""
import json
import re
import subprocess

import httpx
import pytest

import frame_table
from block_file import BlockFile
from frame_table import ALL, BLOCK, FAULTS, STALL_S, TOKENS
from harness import BINARY, CLIENT, Pair, Serve, free_port, outcome, prompt, token_header, wait_until
from peer import Recordings, ScriptedEngine, honest

SERVE_ARGS = ["--block-tokens", BLOCK, "--min-tokens", 64, "--min-tail", 2, "--min-coverage", 0.4, "--stall-timeout", STALL_S]
NEXT_TOKENS = BLOCK + 21
ANSWER_TOKENS = 4


def prompts(fault):
    """The prompt that the fault hits, and that of the next request."""
    seed = 1000 + 2 * FAULTS.index(fault)
    return prompt(TOKENS, seed), prompt(NEXT_TOKENS, seed + 1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, token, request):
    """(what the real engine says about itself, what it sent for every prompt of the rows that run)."""
    folder = tmp_path_factory.mktemp("recordings")
    rows = {item.callspec.params["fault"].name: item.callspec.params["fault"] for item in request.session.items
            if getattr(item, "callspec", None) and isinstance(item.callspec.params.get("fault"), frame_table.FrameFault)}
    with Pair(SERVE_ARGS, ["--record", folder], token=token) as pair:
        identity = CLIENT.get(pair.prefill.url + "/v1/identity", headers=token_header(token)).json()
        for fault in rows.values():
            for ids in prompts(fault):
                reply = pair.serve.complete(ids, headers={"X-PD-Bridge-Only": "1"})
                assert outcome(reply.verdict) == "complete"
        pair.wait_idle()
    for path in folder.glob("*.ish"):
        done = subprocess.run([BINARY, "inspect", path, "--json"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["end"].startswith("sealed"), done.stdout
    return identity, Recordings(folder)


class FrameBench:
    def __init__(self, serve, engine, store):
        self.serve, self.engine, self.store = serve, engine, store

    def tokens_on_disk(self, transfer):
        """Tokens of the block files that this transfer left. Decode engine and store write more, under other names."""
        self.serve.wait_written()
        assert not list(self.store.rglob("*.tmp")) and not list(self.store.rglob("quarantine/*"))
        blocks = [BlockFile.read(path, planes=False) for path in self.store.rglob("*.isb")]
        return sum(b.tokens for b in blocks if b.transfer == transfer)

    def settle(self):
        self.serve.wait_idle()
        for connection in self.engine.keep:
            connection.close()
        self.engine.keep.clear()


@pytest.fixture(scope="module")
def frames(recorded, tmp_path_factory, token):
    identity, recordings = recorded
    store, port, handoff_port = tmp_path_factory.mktemp("frame-store"), free_port(), free_port()
    secret = token.read_bytes().strip()
    with ScriptedEngine(port, identity, secret, handoff_port, recordings) as engine:
        engine.keep = []
        with Serve("--prefill", f"http://127.0.0.1:{port}", "--handoff-port", handoff_port, "--store", store, *SERVE_ARGS,
                   token=token) as serve:
            bench = FrameBench(serve, engine, store)
            wait_until(lambda: serve.stats()["handoff"]["live"] == 0, "the server")
            yield bench


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_frame_fault(fault, frames, baseline):
    ids, next_ids = prompts(fault)
    frames.settle()
    handoff, fds = frames.serve.stats()["handoff"], frames.serve.open_fds()

    frames.engine.play(fault.script)
    reply = frames.serve.answer(ids, ANSWER_TOKENS)
    assert re.match(fault.outcome, outcome(reply.verdict)), reply.verdict
    assert reply.debug["cached_tokens"] == fault.stored
    assert reply.debug["computed_tokens"] == TOKENS - fault.stored
    assert reply.answer == baseline.answer(ids, ANSWER_TOKENS)

    wait_until(frames.engine.idle, "the end of the script")
    call = frames.engine.finish()
    if fault.told is not None:
        assert call.heard is not None and call.heard.type == frame_table.ABORT, call.heard
        assert re.search(fault.told, call.heard.json["message"]), call.heard.json
    frames.settle()
    assert frames.tokens_on_disk(call.body["transfer"]) == fault.stored
    after = frames.serve.stats()["handoff"]
    assert after["transfers"] == handoff["transfers"] + 1
    wait_until(lambda: frames.serve.stats()["handoff"]["refused"] == handoff["refused"] + fault.refused, "the refusals")
    assert after["unauthenticated"] == handoff["unauthenticated"] + fault.unauthenticated

    frames.engine.play(honest)
    reply = frames.serve.answer(next_ids, ANSWER_TOKENS)
    assert outcome(reply.verdict) == "complete", reply.verdict
    assert reply.debug["computed_tokens"] == 1
    assert reply.answer == baseline.answer(next_ids, ANSWER_TOKENS)
    assert frames.engine.finish().heard.json == {"landed": NEXT_TOKENS - 1, "sealed": True}
    frames.settle()
    wait_until(lambda: frames.serve.open_fds() <= fds + 2, f"{fds} open descriptors", timeout=20)
