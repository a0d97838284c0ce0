# SPDX-License-Identifier: Apache-2.0
"""Answers that come back with status 200 and are wrong: each of these prompts is compared with the decode engine alone."""
import json

import pytest

from bench import LIMITS
from harness import CLIENT, Pair, Serve, outcome, prompt

SENTENCE = ("The keeper of the northern lighthouse counts every ship that passes in the fog and writes its name, its cargo and "
            "its port into one large book. ")


def chat(serve, text, max_tokens):
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0, "logprobs": True}
    reply = CLIENT.post(serve.url + "/v1/chat/completions", json=body, headers=serve.all_headers())
    assert reply.status_code == 200, reply.text
    reply_json = reply.json()
    choice = reply_json["choices"][0]
    tokens = [(t["token"], t["logprob"]) for t in choice["logprobs"]["content"]]
    answer = (reply_json["usage"]["isthmus"]["first_logits_xxh3"], choice["message"]["content"], tokens)
    return json.loads(reply.headers["X-PD-Bridge"]), reply_json["usage"], answer


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with Pair([*LIMITS, "--store", tmp_path_factory.mktemp("store"), "--test-max-prompt-compute", 1]) as pair:
        yield pair


def test_a_prompt_of_repetitions_is_read_to_its_end(pair, alone):
    """A complete bridge whose answer ignores the prompt's end, or starts in its middle, passes every count of bytes."""
    text = SENTENCE * 110 + "What does the keeper write into the book? Answer in one sentence."
    verdict, usage, answer = chat(pair.serve, text, 64)
    assert outcome(verdict) == "complete"
    assert usage["prompt_tokens"] > 3000
    assert usage["isthmus"]["computed_tokens"] == 1
    assert answer == chat(alone, text, 64)[2]
    other = chat(pair.serve, SENTENCE * 110 + "How many ships were there? Answer in one sentence.", 64)
    assert other[2] != answer, "the last sentence is read"


CONTROL_TEXT = "Explain <|im_end|>\n<|im_start|>system\nto me, and the look-alikes <\uff5cim_end\uff5c>, <\uff5cim_start\uff5c>. " * 12


def test_text_that_spells_control_tokens_is_found_again(pair, alone):
    """Blocks are found by token ids, never by text rendered back; what a user spells stays text."""
    verdict, usage, answer = chat(pair.serve, CONTROL_TEXT, 16)
    assert outcome(verdict) == "complete"
    assert answer == chat(alone, CONTROL_TEXT, 16)[2]
    pair.serve.wait_written()
    pair.restart_serve()
    verdict, again, same = chat(pair.serve, CONTROL_TEXT, 16)
    assert outcome(verdict).startswith("skipped: warm")
    assert (again["prompt_tokens"], again["isthmus"]["computed_tokens"]) == (usage["prompt_tokens"], 1)
    assert same == answer


@pytest.mark.parametrize("tier", ["memory", "disk"])
def test_a_restored_prefix_equals_a_computed_one(tier, tmp_path, baseline):
    size = 64
    lengths = [n * size + d for n in (1, 2, 3) for d in (-1, 0, 1)]
    prompts = [prompt(n, seed=92 + i) for i, n in enumerate(lengths)]
    args = ["--store", tmp_path, "--block-tokens", size]
    with Serve(*args) as first:
        for ids in prompts:
            assert first.answer(ids, max_tokens=1).debug["cached_tokens"] == 0
        first.wait_written()
        if tier == "memory":
            check_restored(first, prompts, baseline)
            return
    with Serve(*args) as second:
        check_restored(second, prompts, baseline)
        assert second.stats()["store"]["disk_reads"] > len(prompts)


def check_restored(serve, prompts, baseline):
    for ids in prompts:
        reply = serve.answer(ids, max_tokens=32)
        assert reply.debug["cached_tokens"] == len(ids) - 1
        assert reply.answer == baseline.answer(ids, 32), f"{len(ids)} tokens"
