# SPDX-License-Identifier: Apache-2.0
"""bench/kernel_regression.py: when a kernel counts as slow, and what it is compared with."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import kernel_regression  # noqa: E402

SPEEDS = [  # measured, recorded, kernels called slow
    ({"a": 1.0}, {"a": 1.0}, []),
    ({"a": 1.24}, {"a": 1.0}, []),
    ({"a": 1.26}, {"a": 1.0}, ["a"]),
    ({"a": 0.5}, {"a": 1.0}, []),
    ({"a": 1.0, "b": 9.0}, {"a": 1.0, "b": 1.0}, ["b"]),
    ({"a": 1.0, "new": 1.0}, {"a": 1.0}, ["new"]),
    ({"a": 1.0}, {"a": 1.0, "gone": 1.0}, ["gone"]),
]


@pytest.mark.parametrize("measured,recorded,expected", SPEEDS)
def test_slow_kernels(measured, recorded, expected):
    found = kernel_regression.speeds(measured, recorded)
    assert kernel_regression.slow(found, kernel_regression.LEAST_SPEED) == expected


BASELINES = [
    {"cpu": "one", "rung": "avx2", "threads": 2, "ratios": {"a": 1.0, "b": 4.0}},
    {"cpu": "two", "rung": "avx2", "threads": 2, "ratios": {"a": 2.0, "b": 3.0}},
]


@pytest.mark.parametrize("cpu,rung,threads,ratios,least", [
    ("one", "avx2", 2, {"a": 1.0, "b": 4.0}, kernel_regression.LEAST_SPEED),
    ("two", "avx2", 2, {"a": 2.0, "b": 3.0}, kernel_regression.LEAST_SPEED),
    ("three", "avx2", 2, {"a": 2.0, "b": 4.0}, kernel_regression.LEAST_SPEED_ELSEWHERE),
    ("one", "avx2", 8, {"a": 2.0, "b": 4.0}, kernel_regression.LEAST_SPEED_ELSEWHERE),
])
def test_baseline_that_counts(cpu, rung, threads, ratios, least):
    assert kernel_regression.reference_of(BASELINES, cpu, rung, threads)[:2] == (ratios, least)


def test_no_baseline_for_these_instructions():
    assert kernel_regression.reference_of(BASELINES, "one", "neon", 2) is None


def test_recording_replaces_only_the_same_machine(tmp_path):
    entry = {"cpu": "two", "rung": "avx2", "threads": 2, "ratios": {"a": 7.0}}
    kernel_regression.record(tmp_path / "x" / "kernels.json", BASELINES, entry)
    assert json.loads((tmp_path / "x" / "kernels.json").read_text()) == [BASELINES[0], entry]


def test_cpu_name():
    assert kernel_regression.cpu_name("vendor_id\t: X\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Y Z\n") == "X 6 207"
    assert kernel_regression.cpu_name("") == "? ? ?"
