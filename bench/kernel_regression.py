#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has a kernel become slower? Each one's rate as a share of what limits it, which is measured right before and right after it
(src/kernels/kernel_bench.cpp), against what bench/baselines/kernels.json has for this kind of CPU.

    scripts/kernel-regression             # fails for a kernel that has lost 20 % of its speed
    scripts/kernel-regression --record    # writes the shares of this CPU as its baseline

What one run calls slow is measured again, up to twice, and fails only if it is slow each time. Last line: N passed, N failed.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

LEAST_SPEED = 0.8
TRIES = 3
# A CPU without a baseline is held to this share of the slowest recorded one that runs the same instructions: CPUs come unequally
# near to their limits.
LEAST_SPEED_ELSEWHERE = 0.5


class NoResult(Exception):
    """The program gave no results; says why."""


def run(kernels_bench, pattern):
    """Kernel name to share; instructions and threads it ran with."""
    done = subprocess.run([kernels_bench, f"--benchmark_filter={pattern}", "--benchmark_format=json"], capture_output=True, text=True)
    if done.returncode != 0 or not done.stdout.strip():
        raise NoResult(f"{kernels_bench}: exit status {done.returncode}, no results for {pattern}: {done.stderr.strip()[-500:]}")
    rows = json.loads(done.stdout)["benchmarks"]
    # "regression/NAME/iterations:9/real_time"
    return {row["name"].split("/")[1]: row["share"] for row in rows}, rows[0]["label"], int(rows[0]["threads"])


def cpu_name(cpuinfo):
    """Vendor, family, model: what /proc/cpuinfo says even where a hypervisor hides the name; and whether it shows AMX."""
    found = {key: re.search(rf"^{key}\s*: (.*)$", cpuinfo, re.M) for key in ("vendor_id", "cpu family", "model")}
    amx = re.search(r"^flags\s*:.*\bamx_bf16\b", cpuinfo, re.M)
    return " ".join(m[1] if m else "?" for m in found.values()) + (" with AMX" if amx else "")


def reference_of(baselines, cpu, rung, threads):
    """(kernel to share, least speed, what it is), or None where nothing recorded can be compared."""
    same_kind = [b for b in baselines if b["rung"] == rung]
    for b in same_kind:
        if (b["cpu"], b["threads"]) == (cpu, threads):
            return b["shares"], LEAST_SPEED, f"the baseline of {cpu}"
    if not same_kind:
        return None
    names = set().union(*(b["shares"] for b in same_kind))
    slowest = {name: min(b["shares"][name] for b in same_kind if name in b["shares"]) for name in names}
    return slowest, LEAST_SPEED_ELSEWHERE, f"the slowest of {', '.join(b['cpu'] for b in same_kind)} (nothing is recorded for {cpu}, {threads} threads)"


def speeds(measured, recorded):
    """Each kernel's speed as a multiple of the recorded one; None for a kernel that only one side has."""
    return {name: measured[name] / recorded[name] if name in recorded and name in measured else None
            for name in sorted(set(measured) | set(recorded))}


def slow(found, least):
    return [name for name, speed in found.items() if speed is None or speed < least]


def check(measure, measured, recorded, least):
    """Prints a line for each kernel; those that failed. measure(pattern): shares of the kernels that match."""
    for _ in range(TRIES - 1):
        again = [name for name in slow(speeds(measured, recorded), least) if name in measured and name in recorded]
        if not again:
            break
        measured = measured | measure(f"^regression/({'|'.join(again)})/")
    found = speeds(measured, recorded)
    failed = slow(found, least)
    for name, speed in found.items():
        said = "only in the baseline" if name not in measured else "not in the baseline" if speed is None else f"{speed:.2f}"
        print(f"{'FAILED ' if name in failed else ''}{name:24} {said}")
    return found, failed


def record(path, baselines, entry):
    kept = [b for b in baselines if (b["cpu"], b["rung"], b["threads"]) != (entry["cpu"], entry["rung"], entry["threads"])]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(sorted([*kept, entry], key=lambda b: (b["cpu"], b["rung"], b["threads"])), indent=1) + "\n")


def finish(passed, failed):
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels-bench", required=True)
    parser.add_argument("--baselines", type=pathlib.Path, required=True)
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args(arguments)

    def measure(pattern):
        return run(args.kernels_bench, pattern)[0]

    baselines = json.loads(args.baselines.read_text()) if args.baselines.exists() else []
    cpu = cpu_name(pathlib.Path("/proc/cpuinfo").read_text())
    try:
        measured, rung, threads = run(args.kernels_bench, "^regression/")
        if args.record:
            runs = [measured, *(measure("^regression/") for _ in range(TRIES - 1))]
            shares = {name: round(sorted(r[name] for r in runs)[TRIES // 2], 4) for name in measured}
            record(args.baselines, baselines, {"cpu": cpu, "rung": rung, "threads": threads, "shares": shares})
            print(f"recorded the kernels of {cpu}, {rung}, {threads} threads")
            return finish(len(shares), 0)
        reference = reference_of(baselines, cpu, rung, threads)
        if reference is None:
            print(f"FAILED nothing is recorded for {rung}: scripts/kernel-regression --record does it")
            return finish(0, 1)
        recorded, least, what = reference
        print(f"speed as a multiple of {what}; at least {least}")
        found, failed = check(measure, measured, recorded, least)
        return finish(len(found) - len(failed), len(failed))
    except NoResult as error:
        print(f"FAILED {error}")
        return finish(0, 1)


if __name__ == "__main__":
    sys.exit(main())
