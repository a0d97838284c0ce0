#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that includes under src/ point only down the list of layers, never sideways between stages, and that each
outside library is included only by the folders that wrap it. tools/test_tools.py holds rows to accept and to reject.
"""
import re
import sys

from cpp_source import ROOT, cpp_files, report, strip_comments

# Top to bottom. A layer may include itself and every rank below; layers of one rank never include one another.
RANKS = [
    {"apps"},
    {"bridge"},
    {"front", "route", "prefill", "capture", "handoff", "store", "decode"},
    {"flow"},
    {"model"},
    {"text"},
    {"tensor"},
    {"kernels"},
    {"net"},
    {"base"},
]
RANK_OF = {layer: rank for rank, layers in enumerate(RANKS) for layer in layers}

# Header pattern -> layers that may include it. Everything not listed is free.
LIBRARIES = [
    (r"boost/", {"net"}),
    (r"openssl/", {"base", "net"}),
    (r"sqlite3(ext)?\.h$", {"store"}),
    (r"pcre2\.h$|utf8proc\.h$", {"text"}),
    (r"oneapi/|dnnl|hwy/", {"kernels"}),
    (r"(imm|x86|arm_neon|arm_sve|[a-z]+mm)intrin\.h$|arm_(neon|sve)\.h$", {"kernels"}),
    (r"omp\.h$", {"kernels", "base"}),
    (r"xxh(ash|3)\.h$", {"base"}),
    (r"CLI/", {"apps"}),
]

# kernels/x-inl.h is "inside" a .cpp; the names below are how Highway re-includes a file per target.
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
REINCLUDE = re.compile(r'^[ \t]*#[ \t]*define[ \t]+HWY_TARGET_INCLUDE[ \t]+(")([^"]+)"', re.MULTILINE)


def check_include(layer, quote, target):
    """A sentence when a file of `layer` must not include `target`, else None."""
    for pattern, allowed in LIBRARIES:
        if re.match(pattern, target):
            if layer in allowed:
                return None
            return f"<{target}> belongs in {', '.join(sorted(allowed))} only, not in {layer}"
    first = target.split("/")[0]
    if first not in RANK_OF or "/" not in target:
        return f'"{target}" is not of the form "layer/file.h"' if quote == '"' else None
    if quote == "<":
        return f'<{target}> is ours: write "{target}"'
    if first == layer or RANK_OF[first] > RANK_OF[layer]:
        return None
    way = "sideways" if RANK_OF[first] == RANK_OF[layer] else "upwards"
    return f'{layer} includes {way}: "{target}"'


def check_text(layer, text):
    """(line, sentence) for every include of the text that breaks a rule."""
    if layer not in RANK_OF:
        return [(1, f"src/{layer} is no layer (known: {', '.join(sorted(RANK_OF))})")]
    text = strip_comments(text, keep_strings=True)
    problems = []
    for pattern in (INCLUDE, REINCLUDE):
        for match in pattern.finditer(text):
            sentence = check_include(layer, match.group(1), match.group(2))
            if sentence:
                problems.append((text.count("\n", 0, match.start()) + 1, sentence))
    return problems


def main():
    problems = []
    for path in cpp_files():
        name = path.relative_to(ROOT)
        problems += [f"{name}:{line}: {text}" for line, text in check_text(name.parts[1], path.read_text())]
    return report(problems, "include layers")


if __name__ == "__main__":
    sys.exit(main())
