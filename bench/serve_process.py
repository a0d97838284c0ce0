# SPDX-License-Identifier: Apache-2.0
"""A running `isthmus serve`, and prompts for it that no cache knows. Standard library only (tests/harness.py is not), since a
benchmark runs in the Python environment of the engine beside it."""
import json
import random
import subprocess
import urllib.request

VOCABULARY = 49152  # of SmolLM2


def prompt(tokens):
    draw = random.SystemRandom()
    return [draw.randrange(VOCABULARY // 16, VOCABULARY - VOCABULARY // 16) for _ in range(tokens)]


class ServeProcess:
    """Ended by close(), or at the end of a `with`."""

    def __init__(self, binary, model, threads, *options):
        self._process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0", "--threads", str(threads), "--log", "warn", *options],
                                         stdout=subprocess.PIPE, text=True)
        self.pid = self._process.pid
        self.url = f"http://127.0.0.1:{json.loads(self._process.stdout.readline())['port']}"

    def complete(self, ids, answer_tokens):
        """The text of a greedy answer of exactly that many tokens."""
        body = json.dumps({"prompt": ids, "max_tokens": answer_tokens, "temperature": 0, "ignore_eos": True}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v1/completions", body)) as reply:
            return json.load(reply)["choices"][0]["text"]

    def close(self):
        self._process.terminate()
        self._process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
