#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every source file for its licence line, and C++ files for words that the code rules forbid: exceptions outside
the wrapper of the library that throws, getenv outside src/apps and tests, naked new and delete, markers of unfinished work.
tools/test_tools.py holds rows to accept and to reject.
"""
import fnmatch
import re
import sys

from cpp_source import ROOT, cpp_files, is_test, report, strip_comments

LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED = [
    "src/**/*.cpp", "src/**/*.h", "**/CMakeLists.txt", "cmake/*.cmake", "scripts/**/*", "tools/*.py", ".ci/*",
    "tests/**/*.py", "plugins/**/*.py", "plugins/**/*.cpp", "bench/*.py", ".clang-tidy", ".clang-format",
]
SKIPPED = ["build/*", "*/__pycache__/*", "tests/golden/*", "tests/fuzz/corpus/*"]

# Files that may catch: each wraps the one library named.
CATCHES = {
    "src/base/json.cpp": "nlohmann-json",
    "src/base/log.cpp": "spdlog",
    "src/base/thread.*": "std::thread and the allocator",
    "src/net/*.cpp": "Boost.Asio and Beast",
    "src/kernels/gemm*.cpp": "oneDNN",
    "src/apps/*.cpp": "CLI11",
}

# A header that Highway includes once per target has a guard that toggles instead.
GUARD = re.compile(r"^#pragma once$|^#if.*\bHWY_TARGET_TOGGLE\b", re.MULTILINE)
NEW = re.compile(r"(?<!^void\* operator )\bnew\b")
OWNED_NEW = re.compile(r"(?:unique_ptr|shared_ptr)\s*<[^;]*?>\s*[\w]*\s*[({]\s*new\b|\.reset\s*\(\s*new\b")
DELETE = re.compile(r"(?<!=)(?<!= )(?<!operator )\bdelete\b")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def matches(name, patterns):
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def line_problem(name, line, is_test_file):
    """A sentence when one line of code (comments and literals blanked) uses a forbidden word, else None."""
    if re.search(r"\bthrow\b", line) and not is_test_file:
        return "throw: return a Status"
    if re.search(r"\bcatch\s*\(", line) and not is_test_file and not matches(name, CATCHES):
        return "catch outside the wrapper of a library that throws (CATCHES in tools/check_source.py)"
    if re.search(r"\b(secure_)?getenv\b", line) and not is_test_file and not name.startswith("src/apps/"):
        return "getenv outside src/apps: pass an option"
    if NEW.search(line) and not line.lstrip().startswith("#") and not OWNED_NEW.search(line):
        return "naked new: use make_unique, a container, or hand it to a unique_ptr in the same expression"
    if DELETE.search(line):
        return "naked delete: let an owner do it"
    return None


def check_cpp(name, text, is_test_file=False):
    """(line, sentence) for every rule that the C++ text breaks."""
    problems = []
    if not text.startswith("// " + LICENCE):
        problems.append((1, f"first line: expected '// {LICENCE}'"))
    if name.endswith(".h") and not GUARD.search(text):
        problems.append((1, "no #pragma once"))
    for number, line in enumerate(strip_comments(text).split("\n"), 1):
        sentence = line_problem(name, line, is_test_file)
        if sentence:
            problems.append((number, sentence))
    for number, line in enumerate(text.split("\n"), 1):
        if UNFINISHED.search(line):
            problems.append((number, "a marker of unfinished work: finish it, or write down the limit"))
    return problems


def has_licence(text):
    """True when the licence line is the first, or the second after an interpreter line."""
    lines = text.split("\n")[:2]
    return LICENCE in lines[1 if lines[0].startswith("#!") and len(lines) > 1 else 0]


def main():
    problems = []
    for path in cpp_files():
        name = str(path.relative_to(ROOT))
        problems += [f"{name}:{line}: {text}" for line, text in check_cpp(name, path.read_text(), is_test(path))]
    others = {p for pattern in LICENSED for p in ROOT.glob(pattern) if p.is_file()} - set(cpp_files())
    for path in sorted(others):
        name = str(path.relative_to(ROOT))
        if not matches(name, SKIPPED) and not has_licence(path.read_text()):
            problems.append(f"{name}:1: no '{LICENCE}' line")
    return report(problems, "source rules")


if __name__ == "__main__":
    sys.exit(main())
