#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks file lengths, and function length, complexity and parameter counts (measured by lizard: scripts/venv lint).
tools/test_tools.py holds rows to accept and to reject.
"""
import sys

from cpp_source import ROOT, cpp_files, is_test, report

FILE_LINES = {".cpp": 400, ".h": 200}
FILE_STOP = 800  # for tests, and for what is excepted
FUNCTION = {"nloc": 60, "ccn": 15, "parameters": 6}
FUNCTION_STOP = {"nloc": 120, "ccn": 20, "parameters": 8}
WORDS = {"nloc": "code lines", "ccn": "branches (cyclomatic complexity)", "parameters": "parameters"}

# At most five: "path" or "path:function" -> why the norm does not fit. The stops above hold even here.
EXCEPTIONS = {}
EXCEPTIONS_MAX = 5


def check_file(name, lines, test, excepted):
    """A sentence when a file is too long, else None."""
    limit = FILE_STOP if test or excepted else FILE_LINES["." + name.rsplit(".", 1)[1]]
    return f"{lines} lines, at most {limit}" if lines > limit else None


def check_function(sizes, test, excepted):
    """Sentences for every measure of a function that is over its limit; `sizes` has the keys of FUNCTION."""
    limits = FUNCTION_STOP if test or excepted else FUNCTION
    return [f"{sizes[k]} {WORDS[k]}, at most {limits[k]}" for k in limits if sizes[k] > limits[k]]


def check_exceptions(exceptions, used):
    """Sentences about the list itself: too long, or entries that nothing needs any more."""
    problems = [f"exception '{key}' is not needed (any more)" for key in exceptions if key not in used]
    if len(exceptions) > EXCEPTIONS_MAX:
        problems.append(f"{len(exceptions)} exceptions, at most {EXCEPTIONS_MAX}")
    return problems


def measure(path):
    """[(function name, line, sizes)] of one file."""
    import lizard  # only here: the limits above are tested without it

    analysis = lizard.analyze_file(str(path))
    return [
        (f.name, f.start_line,
         {"nloc": f.nloc, "ccn": f.cyclomatic_complexity, "parameters": len(f.full_parameters)})
        for f in analysis.function_list
    ]


def main():
    problems, used = [], set()
    for path in cpp_files():
        name, test = str(path.relative_to(ROOT)), is_test(path)
        lines = path.read_text().count("\n")
        if check_file(name, lines, test, excepted=False) and name in EXCEPTIONS:
            used.add(name)
        sentence = check_file(name, lines, test, name in EXCEPTIONS)
        if sentence:
            problems.append(f"{name}: {sentence}")
        for function, line, sizes in measure(path):
            key = f"{name}:{function}"
            if check_function(sizes, test, excepted=False) and key in EXCEPTIONS:
                used.add(key)
            problems += [f"{name}:{line}: {function}: {s}" for s in check_function(sizes, test, key in EXCEPTIONS)]
    problems += check_exceptions(EXCEPTIONS, used)
    return report(problems, "sizes")


if __name__ == "__main__":
    sys.exit(main())
