#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the time of each phase goes: samples of `isthmus serve` under load (perf, by CPU clock), summed up by kernel.

    scripts/profile       # bench/results/profile.json, and the table
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from machine import machine
from serve_process import ServeProcess, prompt

# Symbols and objects by what they work for; the first that matches counts. oneDNN compiles its matrix products at run time, so
# those have no symbol.
GROUPS = [
    ("int8 matrix products", r"int8|::multiply isthmus|::quantize isthmus"),
    ("bf16 matrix products", r"dnnl|\[JIT\]|gemm_panel|multiply_bf16|multiply_f32|multiply_strip|for_each_panel"),
    ("prompt attention", r"fold_rows|fold_tile|fold_block|mask_row|finish_row|begin_item|finish_item|pack_one|pack_tile|pack_values|transpose_keys|attend<"),
    ("step matrix products", r"tile_rows|step_tiles|tiles_of|tiles_all"),
    ("rounding to 8 bits", r"quantize_row|quantize_activations"),
    ("step attention", r"split_heads|split_all|combine_all|combine_head|attention_step|run_item|run_batch"),
    ("norms, RoPE, activations", r"rms_norm|norm_row|sum_of_squares|rope|silu|round_|widen|kv_append|append_row|add_bias"),
    ("sampling", r"take_token|largest|[Ss]ampler|softmax"),
    ("threads that wait", r"libgomp"),
    ("operating system", r"\[k\]"),
]


def group_of(symbol_and_object):
    return next((name for name, pattern in GROUPS if re.search(pattern, symbol_and_object)), "the rest")


def parse_report(text):
    """Lines of `perf report`, "123;[.] symbol;object;...", to (samples, "[.] symbol object")."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(";")]
        if len(cells) >= 3 and cells[0].isdigit():
            rows.append((int(cells[0]), f"{cells[1]} {cells[2]}"))
    return rows


def ask_all(serve, prompts, answer_tokens):
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        list(pool.map(lambda ids: serve.complete(ids, answer_tokens), prompts))


# Name, options of serve, what runs before the samples are taken, what runs while they are.
def phases():
    def warm_up(serve):
        serve.complete(prompt(64), 2)

    def reads(tokens, times):
        return lambda serve: [serve.complete(prompt(tokens), 1) for _ in range(times)]

    long, streams = prompt(7680), [prompt(32) for _ in range(4)]
    return [
        ("prefill_1024", (), warm_up, reads(1024, 6)),
        ("prefill_4096", (), warm_up, reads(4096, 2)),
        ("prefill_7680", (), warm_up, reads(7680, 1)),
        ("prefill_4096_int8", ("--prefill-weights", "int8"), warm_up, reads(4096, 2)),
        ("decode_short", (), warm_up, lambda serve: serve.complete(prompt(32), 1500)),
        ("decode_7680", (), lambda serve: serve.complete(long, 2), lambda serve: serve.complete(long, 400)),
        ("streams4", (), warm_up, lambda serve: ask_all(serve, streams, 600)),
    ]


def sample(serve, work, folder):
    """Samples by symbol while `work` runs."""
    data = pathlib.Path(folder) / "perf.data"
    perf = subprocess.Popen(["perf", "record", "-q", "-e", "cpu-clock", "-F", "997", "-o", data, "-p", str(serve.pid)])
    time.sleep(0.3)
    if perf.poll() is not None:
        sys.exit("phase_profile: perf cannot record: as root, or with a lower `sysctl kernel.perf_event_paranoid` (1), it can")
    try:
        work(serve)
    finally:
        perf.send_signal(signal.SIGINT)
        perf.wait(60)
    done = subprocess.run(["perf", "report", "-i", data, "--stdio", "--no-children", "-F", "sample,symbol,dso", "-t", ";", "--percent-limit", "0"],
                          capture_output=True, text=True)
    rows = parse_report(done.stdout)
    if not rows:
        sys.exit(f"phase_profile: perf report has no samples: {done.stderr.strip()[-500:]}")
    return rows


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
            with ServeProcess(args.binary, args.model, args.threads, *options) as serve:
                before(serve)
                rows = sample(serve, work, folder)
            total = sum(samples for samples, _ in rows)
            groups = collections.Counter()
            for samples, what in rows:
                groups[group_of(what)] += samples
            result["shares"][name] = {group: round(samples / total, 3) for group, samples in groups.most_common()}
            result["symbols"][name] = [[round(samples / total, 4), what] for samples, what in rows[:25]]
            print(name, result["shares"][name], file=sys.stderr)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{'':26}" + "".join(f"{name:>19}" for name in result["shares"]))
    for group in [*(group for group, _ in GROUPS), "the rest"]:
        row = [result["shares"][name].get(group, 0) for name in result["shares"]]
        if any(row):
            print(f"{group:26}" + "".join(f"{100 * share:18.1f}%" for share in row))


if __name__ == "__main__":
    main()
