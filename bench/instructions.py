#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of microbenchmarks under valgrind and compares them with what was recorded.

    scripts/instruction-counts              builds the programs and runs this
    scripts/instruction-counts --record     takes today's counts as the new baseline

Every benchmark runs alone, in a process of its own, with the number of iterations that it was registered with. Counts do not
depend on load, cores, folder or environment, but on the compiler, the C library and whether the CPU has AVX2: those of others
cannot be compared, which CI takes as a failure. tools/test_instructions.py holds rows to accept and to reject.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASELINE = ROOT / "bench/baselines/instructions.json"
TOLERANCE_PERCENT = 3
RECORD = "scripts/instruction-counts --record"
LIMIT_S = 120  # of one benchmark; the longest takes a tenth of it

# Collecting changes between on and off where one of these is entered and where it is left: on for the loop of a benchmark
# (base/counted_bench.h) and for the engine's thread, off again while that one is in the model. The closing parenthesis keeps
# the parts out that the compiler cuts from a function: their names go on behind it.
TOGGLES = (
    "isthmus::counted_loop(*)",
    "isthmus::NativeEngine::run(*)",
    "isthmus::Model::prompt(*)",
    "isthmus::Model::step(*)",
)


def compare(counts, recorded):
    """[(name, sentence or None)] for every benchmark of either side; None: as recorded."""
    return [(name, judge(counts.get(name), recorded.get(name))) for name in sorted(counts.keys() | recorded.keys())]


def judge(count, recorded):
    """A sentence when a count differs from the recorded one by more than the tolerance, or one of them is missing."""
    if count is None:
        return f"is in the baseline, but there is no such benchmark: {RECORD}"
    if count == 0:
        return "nothing was counted: is its loop counted_iterations(), and are the names in TOGGLES right?"
    if recorded is None:
        return f"is not in the baseline: {RECORD}"
    change = count / recorded - 1
    text = f"{count:,} instructions, recorded {recorded:,} ({change:+.1%})"
    if 100 * count > (100 + TOLERANCE_PERCENT) * recorded:
        return f"{text}: dearer by more than {TOLERANCE_PERCENT} %"
    if 100 * count < (100 - TOLERANCE_PERCENT) * recorded:
        return f"{text}: cheaper by more than {TOLERANCE_PERCENT} %; record it, so that it stays so: {RECORD}"
    return None


def incomparable(here, recorded):
    """A sentence when counts of `here` say nothing beside the recorded ones, else None."""
    for key in ("compiler", "library", "architecture"):
        if here[key] != recorded.get(key):
            return f"counts cannot be compared: {key} is {here[key]}, the baseline was recorded with {recorded.get(key)}"
    return None


def listed(program, lines):
    """{name: name in the program} of a program's list of benchmarks; ValueError for one without fixed iterations."""
    names = {}
    for line in filter(None, lines):
        name, fixed, _ = line.partition("/iterations:")
        if not fixed:
            raise ValueError(f"{program}: {line} has no ->Iterations(n)")
        names[f"{program.removesuffix('_bench')}/{name}"] = line
    return names


def total(profile):
    """The instructions that a profile of callgrind counted."""
    found = re.findall(r"^totals: (\d+)$", profile, re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"expected one line of totals in callgrind's profile, got {len(found)}")
    return int(found[0])


def toolchain(build):
    """What counts depend on: CMake's compiler, the C library, and the instruction set that valgrind passes on."""
    files = sorted(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"), key=lambda p: p.stat().st_mtime)
    settings = dict(re.findall(r'^set\((\w+) "([^"]*)"\)$', files[-1].read_text(), re.MULTILINE))
    compiler = f"{settings['CMAKE_CXX_COMPILER_ID']} {settings['CMAKE_CXX_COMPILER_VERSION']}"
    avx2 = " avx2" if re.search(r"^flags.*\bavx2\b", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE) else ""
    return {"compiler": compiler, "library": " ".join(platform.libc_ver()), "architecture": platform.machine() + avx2}


# As little as programs need, the same for everybody. One OpenMP thread: others would wait by spinning.
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "OMP_NUM_THREADS": "1"}


def run(build, command):
    """The finished process, started in the folder of the programs: their own names must not depend on where that is."""
    return subprocess.run(command, cwd=build, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT_S)


def list_benchmarks(build, programs):
    """[(name, program, name in the program)] of all programs."""
    found = []
    for program in programs:
        done = run(build, [f"./{program}", "--benchmark_list_tests"])
        done.check_returncode()
        found += [(name, program, own) for name, own in listed(program, done.stdout.splitlines()).items()]
    return found


def count(build, program, own_name):
    """Instructions of one benchmark."""
    with tempfile.TemporaryDirectory(prefix="isthmus-instructions-") as folder:
        profile = pathlib.Path(folder, "profile")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}"]
        command += [f"--toggle-collect={name}" for name in TOGGLES]
        done = run(build, [*command, f"./{program}", f"--benchmark_filter=^{re.escape(own_name)}$"])
        if done.returncode != 0:
            own = [line for line in done.stderr.splitlines() if not line.startswith("==")]  # not valgrind's
            raise RuntimeError(f"exit status {done.returncode}: {own[-1] if own else done.stderr[-500:]}")
        return total(profile.read_text())


def count_all(build, programs, jobs):
    """{name: instructions} and {name: why there is none}."""
    counts, broken = {}, {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(count, build, *of): name for name, *of in list_benchmarks(build, programs)}
        for done in concurrent.futures.as_completed(waiting):
            name = waiting[done]
            try:
                counts[name] = done.result()
            except (OSError, RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                broken[name] = str(error)
    return counts, broken


def finish(passed, failed):
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def record(here, counts, broken):
    """Writes the baseline, unless a benchmark gave no count."""
    bad = broken | {name: judge(n, None) for name, n in counts.items() if n == 0}
    for name, why in sorted(bad.items()):
        print(f"{name}: {why}")
    if bad:
        print("nothing was recorded")
        return finish(0, len(bad))
    BASELINE.parent.mkdir(parents=True, exist_ok=True)
    BASELINE.write_text(json.dumps(here | {"instructions": dict(sorted(counts.items()))}, indent=2) + "\n")
    print(f"recorded in {BASELINE.relative_to(ROOT)}")
    return finish(len(counts), 0)


def check(counts, broken, recorded):
    """Prints a line for each benchmark, and the tally."""
    results = [(name, broken.get(name, sentence)) for name, sentence in compare(counts | dict.fromkeys(broken, 0), recorded)]
    for name, sentence in results:
        print(f"FAILED {name}: {sentence}" if sentence else f"{name}: {counts[name]:,} ({counts[name] / recorded[name] - 1:+.2%})")
    failed = sum(1 for _, sentence in results if sentence)
    return finish(len(results) - failed, failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of the built programs")
    parser.add_argument("--programs", nargs="+", required=True, help="their names in that folder")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="benchmarks at once")
    parser.add_argument("--record", action="store_true", help="write the baseline instead of comparing with it")
    options = parser.parse_args()
    here = toolchain(options.build)
    baseline = json.loads(BASELINE.read_text()) if BASELINE.exists() else here | {"instructions": {}}
    why = None if options.record else incomparable(here, baseline)
    if why and os.environ.get("CI") == "true":
        print(f"{why}: {RECORD} there, or use that compiler here")
        return finish(0, 1)
    counts, broken = count_all(options.build, options.programs, options.jobs)
    if options.record:
        return record(here, counts, broken)
    if not why:
        return check(counts, broken, baseline["instructions"])
    for name, text in sorted((broken | {name: f"{n:,}" for name, n in counts.items()}).items()):
        print(f"{name}: {text}")
    print(f"{why}; the counts above are for your own comparisons, and CI would fail")
    return finish(0, len(broken))


if __name__ == "__main__":
    sys.exit(main())
