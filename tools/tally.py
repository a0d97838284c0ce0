#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the results of one run and prints `N passed, N failed` as the last line.

The folder holds NAME.rc (exit status of a step) and, for steps that are test programs, NAME.xml (JUnit as written by
GoogleTest and pytest). A step without XML is one test. A test program that ended badly without a failing case, or left
no readable XML, counts as one failure. The exit status is 1 if anything failed or nothing ran.
"""
import pathlib
import sys
import xml.etree.ElementTree as xml_tree

TEST_PROGRAM_MARKS = ("_test", "pytest-")


def count_cases(path):
    """(passed, failed names, skipped) of a JUnit file; None if it is missing or cut short."""
    try:
        root = xml_tree.parse(path).getroot()
    except (OSError, xml_tree.ParseError):
        return None
    passed, failed, skipped = 0, [], 0
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def tally(folder):
    """(passed, failed names, skipped) over every step of the folder."""
    passed, failed, skipped = 0, [], 0
    for rc_file in sorted(folder.glob("*.rc")):
        status = int(rc_file.read_text())
        name = rc_file.stem
        if not any(mark in name for mark in TEST_PROGRAM_MARKS):
            passed += status == 0
            failed += [name] if status != 0 else []
            continue
        cases = count_cases(rc_file.with_suffix(".xml"))
        if cases is None:
            failed.append(f"{name}: exit status {status}, no readable result file")
            continue
        passed += cases[0]
        failed += cases[1]
        skipped += cases[2]
        if status != 0 and not cases[1]:
            failed.append(f"{name}: exit status {status} without a failing case")
    return passed, failed, skipped


def main():
    passed, failed, skipped = tally(pathlib.Path(sys.argv[1]))
    for name in failed:
        print(f"failed: {name}")
    if skipped:
        print(f"{skipped} skipped")
    if not passed and not failed:
        print("no test ran")
    print(f"{passed} passed, {len(failed)} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
