# SPDX-License-Identifier: Apache-2.0
"""vLLM and ours on the same values: the folder that bench/hf_folder.py writes of a GGUF file loads, and says the same."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from vllm_peer import VllmPeer

from harness import BINARY, MODEL, Serve

CACHE = pathlib.Path(os.environ.get("ISTHMUS_CACHE", pathlib.Path.home() / ".cache/isthmus"))
TEXT = (pathlib.Path(__file__).resolve().parents[2] / "LICENSE").read_text()
PROMPTS = 24
PROMPT_TOKENS = 64


def tokenize(text):
    done = subprocess.run([BINARY, "tokenize", "--model", MODEL, "--json"], input=text.encode(), capture_output=True, check=True)
    return json.loads(done.stdout)["ids"]


@pytest.fixture(scope="module")
def prompts():
    ids = tokenize(TEXT)
    return [ids[at:at + PROMPT_TOKENS] for at in range(0, PROMPTS * PROMPT_TOKENS, PROMPT_TOKENS)]


@pytest.fixture(scope="module")
def vllm():
    """Not compiled: that takes a minute on the first run and says the same."""
    with VllmPeer(sys.executable, MODEL, CACHE, os.cpu_count(), eager=True) as peer:
        yield peer


def test_first_choices_agree(prompts, vllm):
    """Two tokens nearly tied fall either way: vLLM rounds what is between its kernels to bf16, we round other values."""
    _, _, answers, read = vllm.generate(prompts, 1)
    assert read == [PROMPT_TOKENS] * PROMPTS
    with Serve() as serve:
        ours = [tokenize(serve.answer(ids, 1, ignore_eos=True).text) for ids in prompts]
    assert sum(a == b for a, b in zip(answers, ours)) >= 0.75 * PROMPTS, (answers, ours)


def test_answers_have_the_length_asked_for(prompts, vllm):
    read_s, write_s, answers, _ = vllm.generate(prompts[:4], 9)
    assert [len(ids) for ids in answers] == [9] * 4
    assert read_s > 0 and write_s > 0
    assert [ids[0] for ids in answers] == [ids[0] for ids in vllm.generate(prompts[:4], 1)[2]]
