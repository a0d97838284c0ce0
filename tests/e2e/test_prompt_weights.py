# SPDX-License-Identifier: Apache-2.0
"""--prefill-weights: a form is the same on both sides of a bridge, differs from the others, and shares no block with them."""
import subprocess

import pytest

from harness import BINARY, BLOCK, ROW_BYTES, Pair, Serve, outcome, prompt

TOKENS = 5 * BLOCK + 17


@pytest.mark.parametrize("form", ["int8", "fp8"])
def test_bridged_equals_unbridged(form, baseline):
    args = ["--prefill-weights", form]
    ids = prompt(TOKENS, 9400)
    with Pair(args, args) as pair, Serve(*args) as alone:
        bridged, native = pair.serve.answer(ids), alone.answer(ids)
    assert outcome(bridged.verdict) == "complete"
    assert bridged.verdict["pulled_gb"] * 1e9 == (TOKENS - 1) * ROW_BYTES
    assert bridged.debug["computed_tokens"] == 1 and native.debug["computed_tokens"] == TOKENS
    assert bridged.answer == native.answer
    assert native.answer[0] != baseline.answer(ids)[0], "the form made no difference: it did not run"


def test_forms_share_no_block(tmp_path):
    ids = prompt(TOKENS, 9401)
    cached = []
    for form in ("bf16", "int8", "fp8", "int8", "bf16"):
        with Serve("--store", tmp_path / "store", "--prefill-weights", form) as serve:
            cached.append(serve.answer(ids).debug["cached_tokens"])
            serve.wait_written()
    assert cached == [0, 0, 0, TOKENS - 1, TOKENS - 1]


def test_forms_of_a_pair_may_differ_and_doctor_says_so(baseline):
    """As with other weights: the decoder takes what the prefill engine computed, labelled with who did."""
    ids = prompt(TOKENS, 9402)
    with Pair([], ["--prefill-weights", "int8"]) as pair:
        bridged = pair.serve.answer(ids)
        doctor = subprocess.run([BINARY, "doctor", "--decoder", pair.serve.url, "--prefill", pair.prefill.url], capture_output=True,
                                text=True, timeout=60)
    assert "decoder prompt-bf16-2, prefill prompt-int8-2" in doctor.stdout.replace('"', ""), doctor.stdout
    assert outcome(bridged.verdict) == "complete" and bridged.debug["computed_tokens"] == 1
    assert bridged.answer[0] != baseline.answer(ids)[0]
