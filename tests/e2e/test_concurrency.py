# SPDX-License-Identifier: Apache-2.0
"""Many clients at once: each gets the answer that it would get alone, and nobody waits for somebody else's bridge."""
import random
import re
import signal
from concurrent.futures import ThreadPoolExecutor

from harness import BLOCK, InBackground, Pair, outcome, prompt, wait_until

CLIENTS = 16
SHORT, WARM, COLD = 132, 62, 6
CONVERSATIONS = 4


def requests():
    """200 distinct prompts: short ones, ones that go on from a conversation that the decoder knows, and long cold ones."""
    conversations = [prompt(180 + 40 * i, seed=500 + i) for i in range(CONVERSATIONS)]
    short = [prompt(12 + i % 40, seed=510 + i) for i in range(SHORT)]
    warm = [conversations[i % CONVERSATIONS] + prompt(3 + i // CONVERSATIONS, seed=700 + i) for i in range(WARM)]
    cold = [prompt(1100 + 200 * i, seed=800 + i) for i in range(COLD)]
    everything = short + warm + cold
    random.Random(1).shuffle(everything)
    assert len({tuple(ids) for ids in everything}) == 200
    return conversations, everything


def test_200_requests_of_16_clients_get_the_serial_answers(baseline):
    conversations, everything = requests()
    for ids in conversations:
        baseline.answer(ids)
    with Pair(["--min-tokens", 1024], ["--chunk", 256]) as pair, ThreadPoolExecutor(CLIENTS) as pool:
        for ids in conversations:
            assert pair.serve.answer(ids).answer == baseline.answer(ids)
        pair.wait_idle()
        fds = pair.serve.open_fds()
        replies = list(pool.map(pair.serve.answer, everything))
        outcomes = [outcome(r.verdict) for r in replies]
        assert outcomes.count("complete") == COLD, outcomes
        assert all(re.match("complete|skipped: short", o) for o in outcomes), outcomes
        reused = [r.debug["cached_tokens"] for ids, r in zip(everything, replies) if ids[0] in range(1500, 1500 + CONVERSATIONS)]
        assert len(reused) == WARM and min(reused) >= 180
        wrong = [(len(ids), o) for ids, r, o in zip(everything, replies, outcomes) if r.answer != baseline.answer(ids)]
        assert wrong == []
        assert pair.serve.stats()["bridge"]["unbridged_wait_s"] == 0
        pair.wait_idle()
        wait_until(lambda: pair.serve.open_fds() <= fds + 2, "the descriptors to be closed")


def test_short_and_warm_requests_do_not_wait_for_bridges(baseline):
    """Two bridges stand still in mid-transfer, and with them the prefill engine: nobody else may notice."""
    cold = [prompt(4 * BLOCK + 300 * i, seed=820 + i) for i in range(2)]
    warm, short = prompt(2 * BLOCK, seed=830), [prompt(40 + i, seed=840 + i) for i in range(5)]
    with Pair(["--min-tokens", 256, "--min-tail", 100], ["--chunk", 64]) as pair:
        assert outcome(pair.serve.answer(warm).verdict) == "complete"
        landed = pair.serve.landed_blocks()
        bridges = [InBackground(pair.serve.answer, ids) for ids in cold]
        wait_until(lambda: pair.serve.landed_blocks() > landed and pair.serve.stats()["handoff"]["live"] == 2, "two bridges")
        pair.prefill.signal(signal.SIGSTOP)
        try:
            for ids in short:
                reply = pair.serve.answer(ids)
                assert outcome(reply.verdict).startswith("skipped: short")
                assert reply.answer == baseline.answer(ids)
                reply = pair.serve.answer(warm)
                assert outcome(reply.verdict).startswith("skipped: warm")
                assert reply.answer == baseline.answer(warm)
            stats = pair.serve.stats()
            assert stats["handoff"]["live"] == 2 and not any(b.done() for b in bridges)
            assert stats["bridge"]["unbridged_wait_s"] == 0
        finally:
            pair.prefill.signal(signal.SIGCONT)
        for ids, pending in zip(cold, bridges):
            reply = pending.result()
            assert outcome(reply.verdict) == "complete"
            assert reply.answer == baseline.answer(ids)
        pair.wait_idle()
