#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our speed beside other engines' on this machine: same model file, same prompt lengths, same threads, turn by turn.

    scripts/bench-peers           # bench/results/peers-llama.json

Each round measures every case on every engine, ours first in even rounds and last in odd ones; what is compared are medians
over the rounds. Ours is timed from outside, over HTTP (`isthmus bench`); a peer in process, without any server. Before each
round a GEMM and a read of memory measure what the machine gives at that time.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import platform
import random
import re
import statistics
import subprocess
import sys

import llama_peer

VOCABULARY = 49152
CONTEXT = 8192

# Prompt tokens, tokens of the answer, streams, and the cases that are the reading ("prefill") or writing rate of such a run.
RUNS = [
    (32, 129, 1, {"decode": "decode_short"}),
    (32, 129, 4, {"decode": "streams4"}),
    (1024, 2, 1, {"prefill": "prefill_1024"}),
    (4096, 2, 1, {"prefill": "prefill_4096"}),
    (7680, 65, 1, {"prefill": "prefill_7680", "decode": "decode_7680"}),
]
CASES = [case for run in RUNS for case in run[3].values()]

# What a peer reached on an idle machine whose GEMM and memory gave this much. A peer far below that, measured by the GEMM and
# memory of this run, was not at its best, and a ratio to it says nothing.
REFERENCE = {
    "gemm_flop_s": 1.03e12, "read_byte_s": 41e9,
    "llama": {"prefill_1024": 1360, "prefill_4096": 680, "prefill_7680": 410, "decode_short": 208, "decode_7680": 46, "streams4": 409},
}
LEAST_SHARE = 0.8


def prompt(tokens):
    draw = random.SystemRandom()
    return [draw.randrange(VOCABULARY // 16, VOCABULARY - VOCABULARY // 16) for _ in range(tokens)]


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"peers: {what}: expected {wanted}, got {got}")


class Ours:
    """`isthmus serve`, timed by `isthmus bench`."""

    def __init__(self, binary, model, threads):
        self._binary = binary
        self.options = {"threads": threads, "over": "HTTP"}
        self.version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self._serve = subprocess.Popen([binary, "serve", "--model", model, "--port", "0", "--threads", str(threads), "--log", "warn"],
                                       stdout=subprocess.PIPE, text=True)
        self._url = f"http://127.0.0.1:{json.loads(self._serve.stdout.readline())['port']}"

    def measure(self, tokens, answer, streams):
        args = ["--prompt-tokens", tokens, "--max-tokens", answer, "--streams", streams, "--repeat", 1, "--vocabulary", VOCABULARY]
        done = subprocess.run([self._binary, "bench", "--url", self._url, "--json", *map(str, args)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"peers: isthmus bench: {done.stderr}")
        case = json.loads(done.stdout)["cases"][0]
        for s in case["samples"]:
            expect("ours: prompt tokens computed", s["computed_tokens"], tokens)
            expect("ours: tokens of the answer", s["completion_tokens"], answer)
        return {"prefill": case["prefill_tok_s"], "decode": case["total_decode_tok_s"]}

    def close(self):
        self._serve.terminate()
        self._serve.wait(60)


class Llama:
    """llama.cpp in this process; one context per number of streams."""

    UBATCHES = (512, 1024, 2048)

    def __init__(self, model, threads):
        self.version = llama_peer.VERSION
        self._ubatch = self._fastest_ubatch(model, threads)
        self._one = llama_peer.LlamaModel(model, threads, CONTEXT, 1, self._ubatch)
        self._four = llama_peer.LlamaModel(model, threads, 512, 4, 512)
        self.options = {**self._one.options, "build": llama_peer.build()}
        for llama in (self._one, self._four):
            llama.generate([prompt(32)], 4)

    @staticmethod
    def _fastest_ubatch(model, threads):
        def seconds(ubatch):
            with llama_peer.LlamaModel(model, threads, CONTEXT, 1, ubatch) as llama:
                llama.generate([prompt(32)], 2)
                return min(llama.generate([prompt(2048)], 1)[0] for _ in range(2))
        return min(Llama.UBATCHES, key=seconds)

    def measure(self, tokens, answer, streams):
        llama = self._one if streams == 1 else self._four
        read_s, write_s, out = llama.generate([prompt(tokens) for _ in range(streams)], answer)
        for stream in range(streams):
            expect("llama: tokens in its cache", llama.tokens_held(stream), tokens + answer - 1)
            expect("llama: tokens of the answer", len(out[stream]), answer)
        return {"prefill": streams * tokens / read_s, "decode": streams * (answer - 1) / write_s}

    def close(self):
        self._one.close()
        self._four.close()


def calibrate(kernels_bench):
    """GEMM and read rate of the machine at this moment, two threads."""
    done = subprocess.run([kernels_bench, "--benchmark_filter=^BM_Gemm/2/512/3072/576/real_time$|^read_memory/real_time$",
                           "--benchmark_format=json"], capture_output=True, text=True, check=True)
    rows = {r["name"]: r for r in json.loads(done.stdout)["benchmarks"]}
    return {"gemm_flop_s": rows["BM_Gemm/2/512/3072/576/real_time"]["FLOP/s"],
            "read_byte_s": rows["read_memory/real_time"]["bytes_per_second"]}


def measure_file(label, arms, rounds, kernels_bench, calibrations):
    """One sample per round, case and arm; adds one calibration per round."""
    samples = []
    for number in range(rounds):
        calibrations.append({"file": label, "round": number, **calibrate(kernels_bench)})
        order = list(arms) if number % 2 == 0 else list(reversed(arms))
        for tokens, answer, streams, cases in RUNS:
            for arm in order:
                got = arms[arm].measure(tokens, answer, streams)
                for rate, case in cases.items():
                    samples.append({"file": label, "round": number, "case": case, "arm": arm, "tok_s": got[rate]})
                    print(f"{label} round {number + 1}/{rounds}: {case:13} {arm:6} {got[rate]:8.1f} tok/s", file=sys.stderr)
    return samples


def medians_of(samples, arms):
    return {case: {arm: statistics.median(s["tok_s"] for s in samples if s["case"] == case and s["arm"] == arm) for arm in arms}
            for case in CASES}


def ratios_of(medians, peers):
    return {f"{case}_vs_{peer}": round(medians[case]["ours"] / medians[case][peer], 3) for peer in peers for case in CASES}


def shares(medians, calibrations):
    """What part of its reference each peer reached, given the machine of this run."""
    out = {}
    for peer in REFERENCE:
        if not isinstance(REFERENCE[peer], dict):
            continue
        for case, reference in REFERENCE[peer].items():
            limit = "gemm_flop_s" if case.startswith("prefill") else "read_byte_s"
            machine = statistics.median(c[limit] for c in calibrations) / REFERENCE[limit]
            out[f"{peer}_{case}"] = round(medians[case][peer] / reference / machine, 3)
    return out


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"cpu": cpu[1] if cpu else platform.processor(), "cores": os.cpu_count(), "system": platform.platform()}


def table(result):
    lines = []
    for label, medians in result["medians"].items():
        peers = [a for a in next(iter(medians.values())) if a != "ours"]
        lines.append(f"{label:16} {'ours':>10} " + " ".join(f"{p:>10} {'ratio':>6}" for p in peers) + "   (tok/s)")
        for case, row in medians.items():
            lines.append(f"{case:16} {row['ours']:10.1f} " + " ".join(f"{row[p]:10.1f} {row['ours'] / row[p]:6.2f}" for p in peers))
    for name, share in result["peer_share_of_reference"].items():
        if share < LEAST_SHARE:
            lines.append(f"note: {name} reached {share:.2f} of its reference for this machine: it was not at its best here")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--kernels-bench", required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="SmolLM2 as packaged (Q4_1)")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="where the Q4_0 file is kept")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    digest = llama_peer.sha256_file(args.model)
    q4_0 = args.work / f"smollm2-q4_0-{digest[:12]}-{llama_peer.VERSION}.gguf"
    if not q4_0.exists():
        args.work.mkdir(parents=True, exist_ok=True)
        partial = q4_0.with_suffix(f".{os.getpid()}")
        llama_peer.requantize(args.model, partial, "q4_0", args.threads)
        partial.rename(q4_0)

    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": machine(),
              "rounds": args.rounds,
              "runs": [dict(zip(("prompt_tokens", "answer_tokens", "streams", "cases"), run)) for run in RUNS],
              "files": {}, "arms": {}, "medians": {}, "all_ratios": {}, "samples": [], "calibration": []}
    for label, path in (("q4_0", q4_0), ("q4_1", args.model)):
        with contextlib.ExitStack() as stack:
            arms = {}
            for name, make in (("ours", lambda: Ours(args.binary, path, args.threads)), ("llama", lambda: Llama(path, args.threads))):
                arms[name] = make()
                stack.callback(arms[name].close)
            samples = measure_file(label, arms, args.rounds, args.kernels_bench, result["calibration"])
            result["arms"][label] = {name: {"version": arm.version, **arm.options} for name, arm in arms.items()}
        result["files"][label] = {"name": path.name, "sha256": llama_peer.sha256_file(path), "bytes": path.stat().st_size}
        result["samples"] += samples
        result["medians"][label] = medians_of(samples, list(arms))
        result["all_ratios"][label] = ratios_of(result["medians"][label], [name for name in arms if name != "ours"])
    of_q4_0 = [c for c in result["calibration"] if c["file"] == "q4_0"]
    result["peer_share_of_reference"] = shares(result["medians"]["q4_0"], of_q4_0)
    result["ratios"] = result["all_ratios"]["q4_0"]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(json.dumps({"ratios": result["ratios"]}))


if __name__ == "__main__":
    main()
