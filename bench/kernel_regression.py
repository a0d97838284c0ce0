#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has a production kernel become slower? Each one's time as a multiple of a calibration loop run right before and after it
(src/kernels/regression_bench.cpp), against what bench/baselines/kernels.json has for this kind of CPU.

    scripts/kernel-regression             # fails for a kernel that has lost 20 % of its speed
    scripts/kernel-regression --record    # writes the ratios of this CPU as its baseline

What one run calls slow is measured again, up to twice, and fails only if it is slow each time. Last line: N passed, N failed.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

LEAST_SPEED = 0.8
TRIES = 3
# A CPU without a baseline is held to this share of the slowest recorded one that runs the same instructions: CPUs differ in how
# fast they are at one thing beside another, but not by as much as a kernel loses that falls back to narrower registers.
LEAST_SPEED_ELSEWHERE = 0.4


def run(kernels_bench, pattern):
    """Kernel name to ratio, and the rung."""
    done = subprocess.run([kernels_bench, f"--benchmark_filter={pattern}", "--benchmark_format=json"], capture_output=True, text=True,
                          check=True)
    # "regression/NAME/iterations:9/real_time"
    rows = json.loads(done.stdout)["benchmarks"]
    return {row["name"].split("/")[1]: row["ratio"] for row in rows}, rows[0]["label"]


def cpu_name(cpuinfo):
    """Vendor, family, model: what /proc/cpuinfo says even where a hypervisor hides the name."""
    found = {key: re.search(rf"^{key}\s*: (.*)$", cpuinfo, re.M) for key in ("vendor_id", "cpu family", "model")}
    return " ".join(m[1] if m else "?" for m in found.values())


def reference_of(baselines, cpu, rung, threads):
    """(kernel to ratio, least speed, what it is), or None where nothing recorded can be compared."""
    same_kind = [b for b in baselines if b["rung"] == rung]
    for b in same_kind:
        if (b["cpu"], b["threads"]) == (cpu, threads):
            return b["ratios"], LEAST_SPEED, f"the baseline of {cpu}"
    if not same_kind:
        return None
    names = set.intersection(*(set(b["ratios"]) for b in same_kind))
    slowest = {name: max(b["ratios"][name] for b in same_kind) for name in names}
    return slowest, LEAST_SPEED_ELSEWHERE, f"the slowest of {', '.join(b['cpu'] for b in same_kind)} (nothing is recorded for {cpu}, {threads} threads)"


def speeds(measured, recorded):
    """Each kernel's speed as a multiple of the recorded one; None for a kernel that only one side has."""
    return {name: recorded[name] / measured[name] if name in recorded and name in measured else None
            for name in sorted(set(measured) | set(recorded))}


def slow(found, least):
    return [name for name, speed in found.items() if speed is None or speed < least]


def record(path, baselines, entry):
    kept = [b for b in baselines if (b["cpu"], b["rung"], b["threads"]) != (entry["cpu"], entry["rung"], entry["threads"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sorted([*kept, entry], key=lambda b: (b["cpu"], b["rung"], b["threads"])), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels-bench", required=True)
    parser.add_argument("--baselines", type=pathlib.Path, required=True)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    baselines = json.loads(args.baselines.read_text()) if args.baselines.exists() else []
    cpu, threads = cpu_name(pathlib.Path("/proc/cpuinfo").read_text()), os.cpu_count()
    measured, rung = run(args.kernels_bench, "^regression/")
    if args.record:
        runs = [measured, *(run(args.kernels_bench, "^regression/")[0] for _ in range(TRIES - 1))]
        ratios = {name: round(sorted(r[name] for r in runs)[TRIES // 2], 5) for name in measured}
        record(args.baselines, baselines, {"cpu": cpu, "rung": rung, "threads": threads, "ratios": ratios})
        print(f"recorded {len(ratios)} kernels of {cpu}, {rung}, {threads} threads")
        return 0
    reference = reference_of(baselines, cpu, rung, threads)
    if reference is None:
        print(f"nothing is recorded for {rung}: scripts/kernel-regression --record does it")
        print("0 passed, 1 failed")
        return 1
    recorded, least, what = reference
    print(f"speed as a multiple of {what}; at least {least}")
    found = speeds(measured, recorded)
    for _ in range(TRIES - 1):
        again = slow(found, least)
        if not again:
            break
        measured |= run(args.kernels_bench, f"^regression/({'|'.join(again)})/")[0]
        found = speeds(measured, recorded)
    failed = slow(found, least)
    for name, speed in found.items():
        said = "only in the baselines" if name not in measured else "not in the baselines" if speed is None else f"{speed:.2f}"
        print(f"{name:24} {said}{'   FAILED' if name in failed else ''}")
    print(f"{len(found) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
