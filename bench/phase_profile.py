#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of each phase goes: samples of `isthmus serve` under load (perf, by CPU clock), summed up by kernel.

    scripts/profile       # bench/results/profile.json, and the table
"""
import argparse
import concurrent.futures
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.request

from machine import machine

VOCABULARY = 49152
# Symbols and objects by what they work for; the first that matches counts. oneDNN compiles its matrix products at run time, so
# those have no symbol.
GROUPS = [
    ("int8 matrix products", r"int8|::multiply isthmus|::quantize isthmus"),
    ("bf16 matrix products", r"dnnl|\[JIT\]|gemm_panels"),
    ("prompt attention", r"fold_rows|fold_tile|fold_block|mask_row|finish_row|begin_item|finish_item|pack_one|pack_tile|pack_values|transpose_keys|attend<"),
    ("step matrix products", r"tile_rows|step_tiles|tiles_of|tiles_all"),
    ("rounding to 8 bits", r"quantize_row|quantize_activations"),
    ("step attention", r"split_heads|split_all|combine_all|combine_head|attention_step|run_item|run_batch"),
    ("norms, RoPE, activations", r"rms_norm|norm_row|sum_of_squares|rope|silu|round_|kv_append|append_row|add_bias"),
    ("sampling", r"take_token|largest|[Ss]ampler|softmax"),
    ("threads that wait", r"libgomp"),
    ("operating system", r"\[k\]"),
]


def group_of(symbol_and_object):
    return next((name for name, pattern in GROUPS if re.search(pattern, symbol_and_object)), "the rest")


def parse_report(text):
    """Lines of `perf report`, "12.34%;[.] symbol;object;...", to (share, "[.] symbol object")."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(";")]
        if len(cells) >= 3 and re.fullmatch(r"[\d.]+%?", cells[0]):
            rows.append((float(cells[0].rstrip("%")) / 100, f"{cells[1]} {cells[2]}"))
    return rows


class Serve:
    def __init__(self, binary, model, threads, *options):
        self.process = subprocess.Popen([binary, "serve", "--model", model, "--port", "0", "--threads", str(threads), "--log", "warn", *options],
                                        stdout=subprocess.PIPE, text=True)
        self._url = f"http://127.0.0.1:{json.loads(self.process.stdout.readline())['port']}"

    def ask(self, prompt, answer_tokens):
        body = {"prompt": prompt, "max_tokens": answer_tokens, "temperature": 0, "ignore_eos": True}
        with urllib.request.urlopen(urllib.request.Request(f"{self._url}/v1/completions", json.dumps(body).encode())) as reply:
            return json.load(reply)["usage"]

    def ask_all(self, prompts, answer_tokens):
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            list(pool.map(lambda prompt: self.ask(prompt, answer_tokens), prompts))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)


def draw(tokens):
    return [random.randrange(VOCABULARY // 16, VOCABULARY - VOCABULARY // 16) for _ in range(tokens)]


# Name, options of serve, what runs before the samples are taken, what runs while they are.
def phases():
    long = draw(7680)
    streams = [draw(32) for _ in range(4)]
    return [
        ("prefill_1024", (), lambda s: s.ask(draw(64), 2), lambda s: [s.ask(draw(1024), 1) for _ in range(6)]),
        ("prefill_4096", (), lambda s: s.ask(draw(64), 2), lambda s: [s.ask(draw(4096), 1) for _ in range(2)]),
        ("prefill_7680", (), lambda s: s.ask(draw(64), 2), lambda s: s.ask(draw(7680), 1)),
        ("prefill_4096_int8", ("--prefill-weights", "int8"), lambda s: s.ask(draw(64), 2), lambda s: [s.ask(draw(4096), 1) for _ in range(2)]),
        ("decode_short", (), lambda s: s.ask(draw(32), 2), lambda s: s.ask(draw(32), 1500)),
        ("decode_7680", (), lambda s: s.ask(long, 2), lambda s: s.ask(long, 400)),
        ("streams4", (), lambda s: s.ask(draw(32), 2), lambda s: s.ask_all(streams, 600)),
    ]


def sample(serve, work, folder):
    data = pathlib.Path(folder) / "perf.data"
    perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-o", data, "-p", str(serve.process.pid)])
    try:
        work(serve)
    finally:
        perf.send_signal(2)
        perf.wait(60)
    done = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "--sort", "symbol,dso", "-t", ";", "--percent-limit", "0"],
                          capture_output=True, text=True, check=True)
    return parse_report(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": machine(),
              "threads": args.threads, "shares": {}, "symbols": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, options, before, work in phases():
            with Serve(args.binary, args.model, args.threads, *options) as serve:
                before(serve)
                rows = sample(serve, work, folder)
            shares = {}
            for share, what in rows:
                shares[group_of(what)] = shares.get(group_of(what), 0) + share
            result["shares"][name] = {group: round(share, 3) for group, share in sorted(shares.items(), key=lambda kv: -kv[1])}
            result["symbols"][name] = [[round(share, 4), what] for share, what in rows[:25]]
            print(name, result["shares"][name], file=sys.stderr)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    groups = [group for group, _ in GROUPS] + ["the rest"]
    print(f"{'':26}" + "".join(f"{name:>19}" for name in result["shares"]))
    for group in groups:
        row = [result["shares"][name].get(group, 0) for name in result["shares"]]
        if any(row):
            print(f"{group:26}" + "".join(f"{100 * share:18.1f}%" for share in row))


if __name__ == "__main__":
    main()
