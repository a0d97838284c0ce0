# SPDX-License-Identifier: Apache-2.0
"""The check of instruction counts (bench/instructions.py) can fail: rows that it accepts and rows that it rejects."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import instructions  # noqa: E402


def assert_says(sentence, part):
    assert sentence is None if part is None else part in sentence


JUDGED = [  # count, recorded, part of the expected sentence or None
    (1_000_000, 1_000_000, None),
    (1_030_000, 1_000_000, None),
    (970_000, 1_000_000, None),
    (1_030_001, 1_000_000, "dearer by more than 3 %"),
    (2_000_000, 1_000_000, "(+100.0%)"),
    (969_999, 1_000_000, "instruction-counts --record"),
    (500_000, 1_000_000, "cheaper by more than 3 %"),
    (0, 1_000_000, "nothing was counted"),
    (0, None, "nothing was counted"),
    (1_000_000, None, "is not in the baseline"),
    (None, 1_000_000, "there is no such benchmark"),
]


@pytest.mark.parametrize("count,recorded,expected", JUDGED)
def test_judge(count, recorded, expected):
    assert_says(instructions.judge(count, recorded), expected)


def test_compare_looks_at_both_sides():
    results = instructions.compare({"a/same": 100, "a/new": 100}, {"a/same": 100, "a/gone": 100})
    assert [(name, sentence is None) for name, sentence in results] == [("a/gone", False), ("a/new", False), ("a/same", True)]


HERE = {"compiler": "GNU 12.2.0", "library": "glibc 2.36", "architecture": "x86_64"}
TOOLCHAINS = [  # recorded, part of the expected sentence or None
    (HERE, None),
    (HERE | {"instructions": {}}, None),
    (HERE | {"compiler": "GNU 12.2.1"}, "compiler"),
    (HERE | {"compiler": "Clang 12.2.0"}, "Clang 12.2.0"),
    (HERE | {"library": "glibc 2.40"}, "library"),
    (HERE | {"architecture": "aarch64"}, "architecture"),
    ({}, "recorded with None"),
]


@pytest.mark.parametrize("recorded,expected", TOOLCHAINS)
def test_incomparable(recorded, expected):
    assert_says(instructions.incomparable(HERE, recorded), expected)


def test_listed():
    names = instructions.listed("text_bench", ["encode/iterations:1", "", "chunks/scores:0/iterations:5"])
    assert names == {"text/encode": "encode/iterations:1", "text/chunks/scores:0": "chunks/scores:0/iterations:5"}
    with pytest.raises(ValueError, match="encode has no ->Iterations"):
        instructions.listed("text_bench", ["encode"])


@pytest.mark.parametrize("profile,expected", [
    ("events: Ir\nfn=(1)\n3 40\n\ntotals: 1234\n", 1234),
    ("events: Ir\ntotals: 0\n", 0),
    ("events: Ir\n", None),
    ("totals: 1\ntotals: 2\n", None),
])
def test_total(profile, expected):
    if expected is None:
        with pytest.raises(ValueError):
            instructions.total(profile)
    else:
        assert instructions.total(profile) == expected


RUNS = [  # recorded compiler, CI, counts, broken, options, exit status, last line
    ("GNU 12.2.0", "true", {"a/x": 100, "a/y": 51}, {}, [], 0, "2 passed, 0 failed"),
    ("GNU 12.2.0", "", {"a/x": 100, "a/y": 50}, {}, [], 0, "2 passed, 0 failed"),
    ("GNU 12.2.0", "true", {"a/x": 104, "a/y": 50}, {}, [], 1, "1 passed, 1 failed"),
    ("GNU 12.2.0", "true", {"a/x": 96, "a/y": 50}, {}, [], 1, "1 passed, 1 failed"),
    ("GNU 12.2.0", "", {"a/x": 100}, {}, [], 1, "1 passed, 1 failed"),
    ("GNU 12.2.0", "", {"a/x": 100, "a/y": 50, "a/z": 1}, {}, [], 1, "2 passed, 1 failed"),
    ("GNU 12.2.0", "", {"a/x": 100}, {"a/y": "exit status 1"}, [], 1, "1 passed, 1 failed"),
    ("GNU 13.1.0", "true", {"a/x": 100, "a/y": 50}, {}, [], 1, "0 passed, 1 failed"),
    ("GNU 13.1.0", "", {"a/x": 400, "a/y": 50}, {}, [], 0, "0 passed, 0 failed"),
    ("GNU 13.1.0", "", {"a/x": 400}, {"a/y": "exit status 1"}, [], 1, "0 passed, 1 failed"),
    ("GNU 13.1.0", "true", {"a/x": 400, "a/y": 50}, {}, ["--record"], 0, "2 passed, 0 failed"),
    ("GNU 12.2.0", "", {"a/x": 400}, {"a/y": "exit status 1"}, ["--record"], 1, "0 passed, 1 failed"),
    ("GNU 12.2.0", "", {"a/x": 400, "a/y": 0}, {}, ["--record"], 1, "0 passed, 1 failed"),
]


@pytest.mark.parametrize("compiler,ci,counts,broken,options,status,last", RUNS)
def test_run(monkeypatch, capsys, tmp_path, compiler, ci, counts, broken, options, status, last):
    baseline = tmp_path / "instructions.json"
    recorded = HERE | {"compiler": compiler, "instructions": {"a/x": 100, "a/y": 50}}
    baseline.write_text(json.dumps(recorded))
    monkeypatch.setattr(instructions, "BASELINE", baseline)
    monkeypatch.setattr(instructions, "ROOT", tmp_path)
    monkeypatch.setattr(instructions, "toolchain", lambda build: HERE)
    monkeypatch.setattr(instructions, "count_all", lambda build, programs, jobs: (counts, broken))
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(sys, "argv", ["instructions.py", "--build", str(tmp_path), "--programs", "x_bench", *options])
    assert instructions.main() == status
    assert capsys.readouterr().out.splitlines()[-1] == last
    written = options and status == 0
    assert json.loads(baseline.read_text()) == (HERE | {"instructions": counts} if written else recorded)
