#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our speed beside llama.cpp's and vLLM's on this machine: same model, same prompt lengths, same threads, turn by turn.

    scripts/bench-peers           # bench/results/peers.json

Each round measures every case on every engine, ours first in even rounds and last in odd ones; what is compared are medians
over the rounds. Ours is timed from outside, over HTTP (`isthmus bench`); a peer in its process, without any server. Before each
round GEMMs and a read of memory measure what the machine gives at that time, which also gives the limits of ours.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys

import llama_peer
from digest import sha256_file
from machine import machine
from peer_arms import ARMS, Setting

# Prompt tokens, tokens of the answer, streams, and the cases that are the reading ("prefill") or writing rate of such a run.
RUNS = [
    (32, 129, 1, {"decode": "decode_short"}),
    (32, 129, 4, {"decode": "streams4"}),
    (1024, 2, 1, {"prefill": "prefill_1024"}),
    (4096, 2, 1, {"prefill": "prefill_4096"}),
    (7680, 65, 1, {"prefill": "prefill_7680", "decode": "decode_7680"}),
]
CASES = [case for run in RUNS for case in run[3].values()]

# What a peer reached on an idle machine whose GEMMs and memory gave this much. A peer far below that, measured by the GEMM of
# the kind it multiplies prompts with and by memory of this run, was not at its best, and a ratio to it says nothing.
REFERENCE = {
    "bf16_gemm_flop_s": 1.03e12, "int8_gemm_flop_s": 2.05e12, "read_byte_s": 41e9,
    "llama": {"prefill_1024": 1360, "prefill_4096": 680, "prefill_7680": 410, "decode_short": 208, "decode_7680": 46, "streams4": 409},
    "vllm": {"prefill_1024": 2700, "prefill_4096": 1600, "prefill_7680": 1050, "decode_short": 68, "streams4": 218},
}
YARDSTICKS = {"llama": "int8_gemm_flop_s", "vllm": "bf16_gemm_flop_s"}
LEAST_SHARE = 0.8

# What a token needs: arithmetic of the matrices, and of attention for each token before it; bytes of weights in a decode step.
TOKEN_FLOP = 0.212e9
TOKEN_FLOP_PER_EARLIER_TOKEN = 69e3
STEP_BYTES = {"q4_0": 90e6, "q4_1": 96e6}

# Prompts of English text after each of which all engines name the likeliest token. Near ties fall either way in some 4 % of
# them (docs/performance.md); an engine that computes something else agrees nowhere.
AGREEMENT_PROMPTS = 24
AGREEMENT_TOKENS = 64
LEAST_AGREEMENT = 0.75


def calibrate(kernels_bench):
    """Rates of the machine at this moment, two threads: our GEMM, one with bf16 instructions (None: there are none), our int8
    GEMM, a read of memory."""
    done = subprocess.run([kernels_bench, "--benchmark_filter=^BM_Gemm(Bf16|Int8)?/2/512/3072/576/real_time$|^read_memory/real_time$",
                           "--benchmark_format=json"], capture_output=True, text=True, check=True)
    rows = {r["name"]: r for r in json.loads(done.stdout)["benchmarks"]}
    return {"gemm_flop_s": rows["BM_Gemm/2/512/3072/576/real_time"]["FLOP/s"],
            "bf16_gemm_flop_s": rows["BM_GemmBf16/2/512/3072/576/real_time"].get("FLOP/s"),
            "int8_gemm_flop_s": rows["BM_GemmInt8/2/512/3072/576/real_time"]["FLOP/s"],
            "read_byte_s": rows["read_memory/real_time"]["bytes_per_second"]}


def agreement(arms, model, threads):
    """The share of prompts after which an engine's first choice is that of ours. Ends the run when they differ grossly."""
    text = (pathlib.Path(__file__).resolve().parent.parent / "LICENSE").read_text()
    with llama_peer.LlamaModel(model, threads, 512) as llama:
        ids = llama.tokenize(text)
        starts = range(0, AGREEMENT_PROMPTS * AGREEMENT_TOKENS, AGREEMENT_TOKENS)
        prompts = [ids[at:at + AGREEMENT_TOKENS] for at in starts]
        choices = {name: arm.first_choices(prompts, llama.text) for name, arm in arms.items()}
    shares = {name: round(statistics.mean(a == b for a, b in zip(choices["ours"], choices[name])), 3) for name in choices if name != "ours"}
    for name, share in shares.items():
        if share < LEAST_AGREEMENT:
            sys.exit(f"peers: {name} and ours agree in {share:.2f} of {AGREEMENT_PROMPTS} first choices on {model.name}, "
                     f"expected {LEAST_AGREEMENT} or more: {choices['ours']} / {choices[name]}")
    return {"prompts": len(prompts), **shares}


def measure_file(label, arms, rounds, kernels_bench, calibrations):
    """One sample per round, case and arm; adds one calibration per round."""
    wanted = {a.name: a.cases or CASES for a in ARMS}
    samples = []
    for number in range(rounds):
        calibrations.append({"file": label, "round": number, **calibrate(kernels_bench)})
        order = list(arms) if number % 2 == 0 else list(reversed(arms))
        for tokens, answer, streams, cases in RUNS:
            for arm in order:
                if not set(cases.values()) & set(wanted[arm]):
                    continue
                got = arms[arm].measure(tokens, answer, streams)
                for rate, case in cases.items():
                    samples.append({"file": label, "round": number, "case": case, "arm": arm, "tok_s": got[rate]})
                    print(f"{label} round {number + 1}/{rounds}: {case:13} {arm:6} {got[rate]:8.1f} tok/s", file=sys.stderr)
    return samples


def medians_of(samples):
    """Case -> arm -> median, with the arms that ran the case."""
    rows = {}
    for s in samples:
        rows.setdefault(s["case"], {}).setdefault(s["arm"], []).append(s["tok_s"])
    return {case: {arm: statistics.median(rates) for arm, rates in rows[case].items()} for case in CASES}


def limits_of(label, calibrations):
    """Tokens a second that no engine with this arithmetic can pass, given the machine of this run."""
    flop_s, byte_s = (statistics.median(c[k] for c in calibrations if c["file"] == label) for k in ("gemm_flop_s", "read_byte_s"))
    limits = {f"prefill_{tokens}": flop_s / (TOKEN_FLOP + TOKEN_FLOP_PER_EARLIER_TOKEN * tokens / 2) for tokens in (1024, 4096, 7680)}
    return {**limits, "decode_short": byte_s / STEP_BYTES[label]}


def ratios_of(medians, limits):
    """Every arm of ours to every peer and to the limit; an arm "ours-x" has the key CASE_x_vs_PEER."""
    out = {}
    for case, row in medians.items():
        others = {name: rate for name, rate in row.items() if not name.startswith("ours")}
        if case in limits:
            others["limit"] = limits[case]
        for arm in set(row) - set(others):
            key = case + arm.removeprefix("ours").replace("-", "_")
            out.update({f"{key}_vs_{other}": round(row[arm] / rate, 3) for other, rate in others.items()})
    return out


def shares(medians, calibrations):
    """What part of its reference each peer reached, given the machine of this run; nothing where that has no such instructions."""
    out = {}
    for peer, yardstick in YARDSTICKS.items():
        for case, reference in REFERENCE[peer].items():
            limit = yardstick if case.startswith("prefill") else "read_byte_s"
            if any(c[limit] is None for c in calibrations):
                continue
            machine = statistics.median(c[limit] for c in calibrations) / REFERENCE[limit]
            out[f"{peer}_{case}"] = round(medians[case][peer] / reference / machine, 3)
    return out


def table(result):
    names = list(result["arms"]["q4_0"])
    lines = []
    for label, medians in result["medians"].items():
        limits = result["limits"][label]
        lines.append(f"{label:16} {'ours':>8} " + " ".join(f"{name:>10} {'ratio':>6}" for name in [*names[1:], "limit"]) + "   (tok/s)")
        for case, row in medians.items():
            others = [(row | {"limit": limits.get(case)}).get(name) for name in [*names[1:], "limit"]]
            lines.append(f"{case:16} {row['ours']:8.1f} "
                         + " ".join(f"{rate:10.1f} {row['ours'] / rate:6.2f}" if rate else " " * 17 for rate in others).rstrip())
        lines.append(f"same first choice as ours: {result['agreement'][label]}")
    for name, share in result["peer_share_of_reference"].items():
        if share < LEAST_SHARE:
            lines.append(f"note: {name} reached {share:.2f} of its reference for this machine: it was not at its best here")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--kernels-bench", required=True)
    parser.add_argument("--vllm-python", required=True, help="of the environment of scripts/venv vllm")
    parser.add_argument("--model", type=pathlib.Path, required=True, help="SmolLM2 as packaged (Q4_1)")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="where the Q4_0 file and vLLM's folders are kept")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def q4_0_of(model, cache, threads):
    """The model in Q4_0 as llama.cpp's users make it, made once."""
    digest = sha256_file(model)
    q4_0 = cache / "models" / f"smollm2-q4_0-{digest[:12]}-{llama_peer.VERSION}.gguf"
    if not q4_0.exists():
        q4_0.parent.mkdir(parents=True, exist_ok=True)
        partial = q4_0.with_suffix(f".{os.getpid()}")
        llama_peer.requantize(model, partial, "q4_0", threads)
        partial.rename(q4_0)
    return q4_0


def main():
    args = arguments()
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "machine": machine(),
              "rounds": args.rounds,
              "runs": [dict(zip(("prompt_tokens", "answer_tokens", "streams", "cases"), run)) for run in RUNS],
              "files": {}, "arms": {}, "agreement": {}, "medians": {}, "limits": {}, "all_ratios": {}, "samples": [], "calibration": []}
    setting = Setting(args.binary, args.vllm_python, args.cache, args.threads)
    for label, path in (("q4_0", q4_0_of(args.model, args.cache, args.threads)), ("q4_1", args.model)):
        setting.model = path
        with contextlib.ExitStack() as stack:
            arms = {}
            for arm in ARMS:
                arms[arm.name] = arm.make(setting)
                stack.callback(arms[arm.name].close)
            result["agreement"][label] = agreement(arms, path, args.threads)
            samples = measure_file(label, arms, args.rounds, args.kernels_bench, result["calibration"])
            result["arms"][label] = {name: {"version": arm.version, **arm.options} for name, arm in arms.items()}
        result["files"][label] = {"name": path.name, "sha256": sha256_file(path), "bytes": path.stat().st_size}
        result["samples"] += samples
        result["medians"][label] = medians_of(samples)
        result["limits"][label] = limits_of(label, result["calibration"])
        result["all_ratios"][label] = ratios_of(result["medians"][label], result["limits"][label])
    of_q4_0 = [c for c in result["calibration"] if c["file"] == "q4_0"]
    result["peer_share_of_reference"] = shares(result["medians"]["q4_0"], of_q4_0)
    result["ratios"] = result["all_ratios"]["q4_0"]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(json.dumps({"ratios": result["ratios"]}))


if __name__ == "__main__":
    main()
