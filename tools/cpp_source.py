# SPDX-License-Identifier: Apache-2.0
"""What the source checks share: the repository root, the C++ files, and text without comments and literals."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent

_TOKENS = re.compile(
    r'R"([^()\s\\]{0,16})\(.*?\)\1"'  # raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'"  # not the digit separator of 1'000
    r"|//(?:\\\n|[^\n])*|/\*.*?\*/",
    re.DOTALL,
)


def is_test(path):
    return path.name.endswith("_test.cpp")


def cpp_files(root=ROOT):
    return sorted(p for p in (root / "src").rglob("*") if p.suffix in (".cpp", ".h"))


def strip_comments(text, keep_strings=False):
    """The text with comments (and literals, unless kept) blanked out; every newline stays where it was."""

    def blank(match):
        token = match.group(0)
        if keep_strings and token[0] != "/":
            return token
        return " " + "\n" * token.count("\n")

    return _TOKENS.sub(blank, text)


def report(problems, what):
    """Prints the problems and a summary line; the exit status."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problem(s)" if problems else f"{what}: ok")
    return 1 if problems else 0
