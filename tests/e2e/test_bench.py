# SPDX-License-Identifier: Apache-2.0
"""`isthmus bench`: what it reports is what the server did."""
import json
import signal
import subprocess

import pytest

from harness import BINARY, MODEL


def bench(*args, timeout=300):
    done = subprocess.run([BINARY, "bench", *map(str, args), "--json"], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_counts_are_the_servers(alone):
    before = alone.stats()["engine"]
    result = bench("--url", alone.url, "--prompt-tokens", "40,300", "--streams", "1,2", "--repeat", 2, "--max-tokens", 6)
    after = alone.stats()["engine"]
    cases = result["cases"]
    assert [(c["prompt_tokens"], c["streams"], c["requests"]) for c in cases] == [(40, 1, 2), (40, 2, 4), (300, 1, 2), (300, 2, 4)]
    for c in cases:
        assert len(c["samples"]) == c["requests"]
        for s in c["samples"]:
            assert (s["prompt_tokens"], s["cached_tokens"], s["computed_tokens"]) == (c["prompt_tokens"], 0, c["prompt_tokens"])
            assert (s["completion_tokens"], s["finish_reason"]) == (6, "length")
            assert s["ttft_s"] > 0 and s["decode_tok_s"] > 0
        assert c["uncached_prompt_tokens"] == c["requests"] * c["prompt_tokens"]
        assert c["outcomes"] == {"skipped: no prefill engine configured": c["requests"]}
        ttft = sorted(s["ttft_s"] for s in c["samples"])
        assert ttft[0] <= c["ttft_s_p50"] <= c["ttft_s_p95"] <= ttft[-1]
    warm_up = 32
    assert after["prompt_tokens_computed"] - before["prompt_tokens_computed"] == 6 * 40 + 6 * 300 + warm_up
    assert after["requests"] - before["requests"] == 12 + 1


def test_prompts_are_fresh_unless_warm(alone):
    args = ("--url", alone.url, "--prompt-tokens", 300, "--repeat", 2, "--max-tokens", 2, "--seed", 7)
    assert [s["cached_tokens"] for s in bench(*args)["cases"][0]["samples"]] == [0, 0]
    warm = bench(*args, "--warm")["cases"][0]
    assert [s["cached_tokens"] for s in warm["samples"]] == [299, 299]
    assert warm["uncached_prompt_tokens"] == 2


def test_starts_and_ends_a_server_of_its_own():
    result = bench("--model", MODEL, "--serve-arg=--max-rows", "--serve-arg=2", "--prompt-tokens", 16, "--repeat", 1, "--max-tokens", 2)
    assert result["cases"][0]["samples"][0]["computed_tokens"] == 16
    listening = subprocess.run([BINARY, "bench", "--url", result["url"]], capture_output=True, text=True, timeout=60)
    assert listening.returncode == 1 and result["url"].removeprefix("http://") in listening.stderr, "its server outlived it"


@pytest.mark.parametrize("args, code, sentence", [
    ([], 2, "expected --url or --model"),
    (["--url", "http://127.0.0.1:9"], 1, "127.0.0.1:9"),
    (["--url", "ftp://x"], 2, "url"),
    (["--url", "http://127.0.0.1:9", "--streams", "0"], 2, "--streams"),
])
def test_wrong_usage_is_refused_in_words(args, code, sentence):
    done = subprocess.run([BINARY, "bench", *args], capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert sentence in done.stderr


@pytest.mark.parametrize("own_server", [False, True])
def test_ends_when_it_is_asked_to(alone, own_server):
    where = ["--model", MODEL] if own_server else ["--url", alone.url]
    bench = subprocess.Popen([BINARY, "bench", *where, "--prompt-tokens", "16", "--max-tokens", "400", "--repeat", "10000", "--json"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while "16 tokens, 1 at once" not in bench.stderr.readline():
        assert bench.poll() is None
    bench.send_signal(signal.SIGTERM)
    assert bench.wait(30) == 1
    assert "stop requested" in bench.stderr.read()


def test_a_refusal_is_reported(alone):
    done = subprocess.run([BINARY, "bench", "--url", alone.url, "--prompt-tokens", "100000"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 1
    assert "answered 400" in done.stderr
