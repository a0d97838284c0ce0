# SPDX-License-Identifier: Apache-2.0
"""Fixtures that both suites share, and the roles' logs under a failing test."""
import os

import pytest

import harness

LOG_LINES = 60


def pytest_sessionstart(session):
    for name, path in (("ISTHMUS_BINARY", harness.BINARY), ("ISTHMUS_MODEL", harness.MODEL)):
        if not os.path.exists(path):
            pytest.exit(f"{name}: no {path} (scripts/test builds and fetches what is missing)", returncode=2)


def pytest_sessionfinish(session):
    for role in list(harness.LIVE):
        role.kill()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        for role in harness.LIVE:
            lines = role.log().splitlines()[-LOG_LINES:]
            report.sections.append((f"{role.command} {role.process.pid}: end of its log", "\n".join(lines)))


@pytest.fixture(scope="session")
def alone():
    """A decode server without a prefill engine: what every bridged answer is compared with."""
    with harness.Serve() as serve:
        yield serve


@pytest.fixture(scope="session")
def baseline(alone):
    return harness.Baseline(alone)
