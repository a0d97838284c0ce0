# SPDX-License-Identifier: Apache-2.0
"""Drives the fault table."""
import re
import signal

import pytest

import table
from harness import InBackground, outcome, prompt, wait_until


def repair(bench):
    if bench.pair.prefill.alive():
        bench.pair.prefill.signal(signal.SIGCONT)
    bench.pair.restart_prefill()
    wait_until(lambda: bench.serve.stats()["engine"]["active"] == 0, "an idle engine")


@pytest.mark.parametrize("fault", table.FAULTS, ids=lambda f: f.name)
def test_fault(fault, bench, baseline):
    seed = 100 + 3 * table.FAULTS.index(fault)
    ids, small, last = (prompt(n, seed + i) for i, n in enumerate((fault.tokens, 300, 320)))
    try:
        fault.before(bench)
        landed = bench.serve.landed_blocks()
        pending = InBackground(bench.serve.answer, ids)
        wait_until(lambda: bench.serve.landed_blocks() >= landed + fault.after_blocks or pending.done(), "the blocks to land")
        fault.during(bench)
        reply = pending.result()
        next_reply = bench.serve.answer(small)
    finally:
        repair(bench)

    assert re.match(fault.outcome, outcome(reply.verdict)), reply.verdict
    least, most = fault.stored
    assert least <= reply.debug["cached_tokens"] <= most
    assert reply.debug["computed_tokens"] == fault.tokens - reply.debug["cached_tokens"]
    assert reply.answer == baseline.answer(ids)
    assert re.match(fault.next_outcome, outcome(next_reply.verdict)), next_reply.verdict
    assert next_reply.answer == baseline.answer(small)

    def bridges_again():  # the health check before the repair may be up to a second old
        return outcome(bench.serve.answer(last, headers={"X-PD-Bridge-Only": "1"}).verdict) == "complete"

    wait_until(bridges_again, "a complete bridge after the repair")
    reply = bench.serve.answer(last)
    assert reply.debug["computed_tokens"] == 1
    assert reply.answer == baseline.answer(last)
    bench.settle()
