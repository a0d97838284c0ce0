# SPDX-License-Identifier: Apache-2.0
"""One prefill engine serves two decoders that have the same model, so the same identity."""
from harness import Prefill, Serve, free_port, outcome, prompt

TOKENS = 600
BRIDGE_ALL = ["--min-tokens", 2, "--min-tail", 2]


def test_each_decoder_gets_its_own_rows():
    ports = [free_port(), free_port()]
    prefill_port = free_port()
    args = [*BRIDGE_ALL, "--handoff-port", 0, "--prefill", f"http://127.0.0.1:{prefill_port}"]
    with Serve(*args, port=ports[0]) as one, Serve(*args, port=ports[1]) as two:
        with Prefill(one.url, "--decoder", two.url, port=prefill_port):
            for round_, serve in enumerate([one, two, one, two]):
                reply = serve.complete(prompt(TOKENS, seed=70 + round_))
                assert outcome(reply.verdict) == "complete", reply.verdict
                assert serve.stats()["handoff"]["sealed"] == round_ // 2 + 1
