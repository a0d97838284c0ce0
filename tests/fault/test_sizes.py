# SPDX-License-Identifier: Apache-2.0
"""Sizes at which transfers of whole caches are known to break, and memory that must not grow with the prompt."""
import pytest

from bench import PATIENT_LIMITS
from harness import BLOCK, ROW_BYTES, Pair, outcome, prompt

MIB = 1 << 20


@pytest.fixture(scope="module")
def one_block_pair(tmp_path_factory):
    """The whole prompt is one block: rows, file and memory in one piece."""
    store = tmp_path_factory.mktemp("store")
    with Pair([*PATIENT_LIMITS, "--store", store, "--block-tokens", 8192]) as pair:
        yield pair, store


@pytest.mark.parametrize("mib", [63, 101])
def test_no_size_cliff(mib, one_block_pair, baseline):
    """Below the 64 MiB of one frame, and above the 100 MiB at which one HTTP body was too much."""
    pair, store = one_block_pair
    rows = mib * MIB // ROW_BYTES
    ids = prompt(rows + 1, seed=110 + mib)
    before = pair.serve.stats()["bridge"]["payload_bytes"]
    reply = pair.serve.answer(ids)
    assert outcome(reply.verdict) == "complete"
    assert (reply.verdict["blocks"], reply.verdict["B"]) == (1, rows)
    assert pair.serve.stats()["bridge"]["payload_bytes"] - before == rows * ROW_BYTES
    assert reply.debug["computed_tokens"] == 1
    assert reply.answer == baseline.answer(ids)
    pair.serve.wait_written()
    # With its header; the next larger file has the answer's rows, too.
    assert any(rows * ROW_BYTES < path.stat().st_size < (rows + 4) * ROW_BYTES for path in store.rglob("*.isb"))


def peaks(blocks):
    """Peak memory of both roles after one bridge, without the rows that the decoder keeps on purpose."""
    with Pair(["--min-tail", 2], ["--chunk", 256]) as pair:
        reply = pair.serve.answer(prompt(blocks * BLOCK + 1, seed=120))
        assert outcome(reply.verdict) == "complete" and reply.verdict["blocks"] == blocks
        pages = blocks * BLOCK * ROW_BYTES  # of either engine's cache
        return pair.serve.peak_rss_bytes() - pages - pair.serve.stats()["store"]["ram_bytes"], pair.prefill.peak_rss_bytes() - pages


def test_memory_does_not_grow_with_the_prompt():
    """Nothing is staged: neither side ever holds more than a few blocks on their way."""
    few, many = peaks(8), peaks(30)
    for role, a, b in zip(("serve", "prefill"), few, many):
        assert b - a <= 4 * BLOCK * ROW_BYTES, f"{role}: {(b - a) / MIB:.0f} MiB more for 30 blocks than for 8"
    print({"serve": few[0] // MIB, "prefill": few[1] // MIB}, {"serve": many[0] // MIB, "prefill": many[1] // MIB})
