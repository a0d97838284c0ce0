# SPDX-License-Identifier: Apache-2.0
"""The table in README.md names tests that exist."""
import pathlib
import re

from harness import ROOT

README = pathlib.Path(__file__).with_name("README.md").read_text()


def test_every_test_that_the_table_names_exists():
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*_test.cpp"))
    known = {f"{suite}.{test}" for suite, test in re.findall(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", sources)}
    named = set(re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", README))
    assert len(named) > 30 and named - known == set()


def test_every_function_that_the_table_names_exists():
    named = re.findall(r"`(e2e/)?(test_\w+\.py)(?:::(test_\w+))?`", README)
    assert len(named) > 20
    for folder, name, function in named:
        path = ROOT / "tests" / (folder or "fault") / name
        assert path.is_file(), path
        assert not function or f"def {function}(" in path.read_text(), f"{name}::{function}"
