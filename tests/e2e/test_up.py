# SPDX-License-Identifier: Apache-2.0
"""`isthmus up` and `isthmus ask`: the two commands that a newcomer types."""
import json
import os
import subprocess

import httpx
import pytest

from harness import BINARY, MODEL, Role, outcome

QUESTION = "Which harbour does the last letter name?"


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """A text of some 2,000 tokens."""
    path = tmp_path_factory.mktemp("text") / "letters.txt"
    places = ("Bergen", "Porto", "Gdansk", "Trieste", "Cork")
    path.write_text("\n".join(f"Letter {i}: the ship lay in the harbour of {places[i % 5]} for {i + 2} days, waiting for wind."
                              for i in range(90)))
    return path


def ask(url, text):
    done = subprocess.run([BINARY, "ask", QUESTION, "--file", text, "--url", url, "--max-tokens", "12", "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_up_runs_both_roles_and_ends_them(letters, alone):
    up = Role("up", "--model", MODEL, "--port", 0, "--prefill-port", 0, "--handoff-port", 0)
    while "url" not in (ready := up.wait_ready()):  # its roles' own lines come first
        pass
    bridged, native = ask(ready["url"], letters), ask(alone.url, letters)
    assert outcome(bridged["verdict"]) == "complete"
    assert bridged["verdict"]["prefilled"] == bridged["usage"]["prompt_tokens"] - 1
    assert outcome(native["verdict"]) == "skipped: no prefill engine configured"
    assert bridged["text"] == native["text"] != ""
    assert httpx.get(ready["prefill_url"] + "/v1/identity").status_code == 401, "the pair has a secret"
    assert up.stop() == 0
    for pid in (ready["serve_pid"], ready["prefill_pid"]):
        assert not os.path.exists(f"/proc/{pid}"), "a role outlived `up`"


def test_ask_says_where_nobody_answers():
    done = subprocess.run([BINARY, "ask", QUESTION, "--url", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "127.0.0.1:9" in done.stderr


@pytest.mark.parametrize("arguments", [["serve", "--no-such-flag"], ["prefill"], ["nonsense"], ["serve", "--model", "/nonexistent"],
                                       ["serve", "--kv-tokens", "-5"], ["prefill", "--decoder", "http://127.0.0.1:1", "--kv-tokens", "-1"],
                                       ["serve", "--temperature", "nan"], ["serve", "--min-coverage", "nan"],
                                       ["serve", "--disk-quota-mib", "17592186044416"], ["serve", "--prefill-weights", "int3"],
                                       ["serve", "--auth-token-file", "/dev/zero"]])
def test_wrong_usage_is_refused_in_words(arguments):
    done = subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode > 0, "ended by a signal, or not at all"
    assert done.stderr.strip() or done.stdout.strip()


def test_up_says_which_port_is_taken(alone):
    """Whoever listens there answers health questions, too: it must not pass for the child."""
    for taken in ("--port", "--prefill-port", "--handoff-port"):
        ports = {"--port": 0, "--prefill-port": 0, "--handoff-port": 0, taken: alone.ready["port"]}
        done = subprocess.run([BINARY, "up", "--model", MODEL, *(str(x) for flag in ports.items() for x in flag)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and str(alone.ready["port"]) in done.stderr, done.stderr
        assert done.stdout == ""


def test_up_without_a_folder_for_its_secret():
    done = subprocess.run([BINARY, "up", "--model", MODEL, "--port", "0", "--prefill-port", "0", "--handoff-port", "0"],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "TMPDIR": "/nonexistent"})
    assert done.returncode == 1 and "TMPDIR" in done.stderr
