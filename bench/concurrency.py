# SPDX-License-Identifier: Apache-2.0
"""Time to the first token of a short client, alone and beside two cold bridges, on one machine (`isthmus up`).

Idle and busy phases alternate, so that other load on the machine meets both alike; only the ratio means something.

    $(scripts/venv test)/bin/python bench/concurrency.py [--json bench/results/concurrency.json]
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from harness import CLIENT, MODEL, InBackground, Role, prompt, wait_until  # noqa: E402

SHORT_TOKENS = 64
BRIDGES = 2
LIMIT = 4  # of the p95 ratio


class Client:
    def __init__(self, url):
        self.url = url
        self.seed = 0

    def body(self, tokens, **extra):
        self.seed += 1  # every prompt is cold
        return {"prompt": prompt(tokens, self.seed), "temperature": 0, **extra}

    def stats(self):
        return CLIENT.get(self.url + "/stats").json()

    def first_token_s(self):
        begun = time.monotonic()
        with CLIENT.stream("POST", self.url + "/v1/completions", json=self.body(SHORT_TOKENS, max_tokens=4, stream=True)) as reply:
            verdict = json.loads(reply.headers["X-PD-Bridge"])
            assert verdict["skipped"] and verdict["why"].startswith("short"), verdict
            first = None
            for line in reply.iter_lines():
                if first is None and line.startswith("data: {"):
                    first = time.monotonic() - begun
        return first

    def bridge(self, tokens):
        reply = CLIENT.post(self.url + "/v1/completions", json=self.body(tokens, max_tokens=1))
        return json.loads(reply.headers["X-PD-Bridge"])


def percentile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def idle_phase(client, requests):
    return [client.first_token_s() for _ in range(requests)]


def busy_phase(client, requests, tokens):
    """First-token times that lie wholly within both bridges."""
    times, verdicts = [], []
    while len(times) < requests:
        running = [InBackground(client.bridge, tokens) for _ in range(BRIDGES)]
        wait_until(lambda: client.stats()["handoff"]["live"] == BRIDGES, "both bridges")
        while len(times) < requests:
            seconds = client.first_token_s()
            if client.stats()["handoff"]["live"] < BRIDGES:
                break
            times.append(seconds)
        verdicts += [r.result() for r in running]
    return times, verdicts


def measure(args):
    up = Role("up", "--model", MODEL, "--port", 0, "--prefill-port", 0, "--handoff-port", 0)
    with up:
        while "url" not in (ready := up.ready):
            ready = up.wait_ready()
        client = Client(ready["url"])
        client.bridge(args.bridge_tokens)
        idle_phase(client, 5)
        before = client.stats()
        idle, busy, verdicts = [], [], []
        for phase in range(args.phases):
            idle += idle_phase(client, args.requests)
            times, seen = busy_phase(client, args.requests, args.bridge_tokens)
            busy += times
            verdicts += seen
            print(f"phase {phase + 1}/{args.phases}: p50 idle {1e3 * statistics.median(idle):.0f} ms, "
                  f"busy {1e3 * statistics.median(busy):.0f} ms", file=sys.stderr, flush=True)
        after = client.stats()
    rates = [v["prefilled"] / v["t_engine"] for v in verdicts if v.get("verdict") == "complete"]
    return {
        "what": "first token of a 64-token prompt, seconds, beside two cold bridges and without",
        "requests": {"idle": len(idle), "busy": len(busy)},
        "bridge_tokens": args.bridge_tokens,
        "bridges": {"complete": len(rates), "other": len(verdicts) - len(rates), "tok_s_median": round(statistics.median(rates), 1)},
        "idle": {"p50": round(percentile(idle, 0.5), 4), "p95": round(percentile(idle, 0.95), 4)},
        "busy": {"p50": round(percentile(busy, 0.5), 4), "p95": round(percentile(busy, 0.95), 4)},
        "p50_ratio": round(percentile(busy, 0.5) / percentile(idle, 0.5), 2),
        "p95_ratio": round(percentile(busy, 0.95) / percentile(idle, 0.95), 2),
        "limit": LIMIT,
        "waited_for_bridges_s": after["bridge"]["unbridged_wait_s"] - before["bridge"]["unbridged_wait_s"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="also write the result to this file")
    parser.add_argument("--phases", type=int, default=4)
    parser.add_argument("--requests", type=int, default=25, help="short requests in each phase")
    parser.add_argument("--bridge-tokens", type=int, default=4000)
    args = parser.parse_args()
    result = measure(args)
    print(json.dumps(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if result["p95_ratio"] <= LIMIT and result["waited_for_bridges_s"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
