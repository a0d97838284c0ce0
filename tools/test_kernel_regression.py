# SPDX-License-Identifier: Apache-2.0
"""bench/kernel_regression.py: when a kernel counts as slow, and what it is compared with."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import kernel_regression  # noqa: E402

SPEEDS = [  # measured shares, recorded ones, kernels called slow
    ({"a": 0.5}, {"a": 0.5}, []),
    ({"a": 0.41}, {"a": 0.5}, []),
    ({"a": 0.39}, {"a": 0.5}, ["a"]),
    ({"a": 0.9}, {"a": 0.5}, []),
    ({"a": 0.5, "b": 0.1}, {"a": 0.5, "b": 0.5}, ["b"]),
    ({"a": 0.5, "new": 0.5}, {"a": 0.5}, ["new"]),
    ({"a": 0.5}, {"a": 0.5, "gone": 0.5}, ["gone"]),
]


@pytest.mark.parametrize("measured,recorded,expected", SPEEDS)
def test_slow_kernels(measured, recorded, expected):
    found = kernel_regression.speeds(measured, recorded)
    assert kernel_regression.slow(found, kernel_regression.LEAST_SPEED) == expected


RETRIES = [  # shares of a slow kernel in the runs after the first, calls made, failed
    ([0.5], 1, []),
    ([0.1, 0.5], 2, []),
    ([0.1, 0.1, 0.5], 2, ["a"]),
]


@pytest.mark.parametrize("later,calls,failed", RETRIES)
def test_slow_kernels_are_measured_again(later, calls, failed):
    asked = []

    def measure(pattern):
        asked.append(pattern)
        return {"a": later[len(asked) - 1]}

    result = kernel_regression.check(measure, {"a": 0.1, "b": 0.5}, {"a": 0.5, "b": 0.5}, 0.8)
    assert result[1] == failed and asked == ["^regression/(a)/"] * calls


def test_kernels_of_one_side_are_not_measured_again():
    def measure(_):
        raise AssertionError("there is nothing to measure")

    assert kernel_regression.check(measure, {"new": 0.5}, {"gone": 0.5}, 0.8)[1] == ["gone", "new"]


BASELINES = [
    {"cpu": "one", "rung": "avx2", "threads": 2, "shares": {"a": 0.5, "b": 0.7}},
    {"cpu": "two", "rung": "avx2", "threads": 2, "shares": {"a": 0.4, "b": 0.9, "c": 0.3}},
]


@pytest.mark.parametrize("cpu,rung,threads,shares,least", [
    ("one", "avx2", 2, {"a": 0.5, "b": 0.7}, kernel_regression.LEAST_SPEED),
    ("two", "avx2", 2, {"a": 0.4, "b": 0.9, "c": 0.3}, kernel_regression.LEAST_SPEED),
    ("three", "avx2", 2, {"a": 0.4, "b": 0.7, "c": 0.3}, kernel_regression.LEAST_SPEED_ELSEWHERE),
    ("one", "avx2", 8, {"a": 0.4, "b": 0.7, "c": 0.3}, kernel_regression.LEAST_SPEED_ELSEWHERE),
])
def test_baseline_that_counts(cpu, rung, threads, shares, least):
    assert kernel_regression.reference_of(BASELINES, cpu, rung, threads)[:2] == (shares, least)


def test_no_baseline_for_these_instructions():
    assert kernel_regression.reference_of(BASELINES, "one", "neon", 2) is None


def test_recording_replaces_only_the_same_machine(tmp_path):
    entry = {"cpu": "two", "rung": "avx2", "threads": 2, "shares": {"a": 0.6}}
    kernel_regression.record(tmp_path / "x" / "kernels.json", BASELINES, entry)
    assert json.loads((tmp_path / "x" / "kernels.json").read_text()) == [BASELINES[0], entry]


@pytest.mark.parametrize("cpuinfo,name", [
    ("vendor_id\t: X\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Y Z\nflags\t\t: fpu avx2\n", "X 6 207"),
    ("vendor_id\t: X\ncpu family\t: 6\nmodel\t\t: 207\nflags\t\t: fpu amx_bf16 avx2\n", "X 6 207 with AMX"),
    ("", "? ? ?"),
])
def test_cpu_name(cpuinfo, name):
    assert kernel_regression.cpu_name(cpuinfo) == name


def program(tmp_path, shares, status=0):
    """Stands for kernels_bench."""
    rows = [{"name": f"regression/{name}/iterations:9/real_time", "share": share, "label": "avx2", "threads": 2.0} for name, share in shares.items()]
    path = tmp_path / "kernels_bench"
    path.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps({'benchmarks': rows}) if rows else ''}\nEOF\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


RUNS = [  # shares now, exit status of the program, shares recorded, last line, exit status
    ({"a": 0.5}, 0, {"a": 0.5}, "1 passed, 0 failed", 0),
    ({"a": 0.1, "b": 0.5}, 0, {"a": 0.5, "b": 0.5}, "1 passed, 1 failed", 1),
    ({"a": 0.5}, 0, {"a": 0.5, "gone": 0.5}, "1 passed, 1 failed", 1),
    ({}, 0, {"a": 0.5}, "0 passed, 1 failed", 1),
    ({"a": 0.5}, 3, {"a": 0.5}, "0 passed, 1 failed", 1),
    ({"a": 0.5}, 0, None, "0 passed, 1 failed", 1),
]


@pytest.mark.parametrize("shares,status,recorded,last,result", RUNS)
def test_whole_run(tmp_path, capsys, shares, status, recorded, last, result):
    baselines = tmp_path / "kernels.json"
    cpu = kernel_regression.cpu_name(pathlib.Path("/proc/cpuinfo").read_text())
    if recorded is not None:
        baselines.write_text(json.dumps([{"cpu": cpu, "rung": "avx2", "threads": 2, "shares": recorded}]))
    assert kernel_regression.main(["--kernels-bench", program(tmp_path, shares, status), "--baselines", str(baselines)]) == result
    assert capsys.readouterr().out.splitlines()[-1] == last
