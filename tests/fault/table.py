# SPDX-License-Identifier: Apache-2.0
"""The fault table: what breaks, when, what the verdict then says, and how many tokens the store must hold.

Every row is driven by test_faults.py, which also checks what all rows have in common: the answer equals the one that the
decode engine gives alone, the next request is answered, nothing stays running, open or half-written, and after the repair
a bridge completes again.
"""
import dataclasses
import signal
from typing import Callable

from harness import BLOCK, free_port

TOKENS = 12 * BLOCK


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    outcome: str                           # regular expression over harness.outcome(verdict)
    stored: tuple[int, int] = (0, 0)       # least and most tokens that the decode engine found in the store
    next_outcome: str = ".*"               # of a small request right after it, before the repair
    tokens: int = 2 * BLOCK + 100          # of the prompt
    before: Callable = lambda bench: None  # breaks something before the request
    after_blocks: int = 0                  # waits for this many blocks to land, then calls `during`
    during: Callable = lambda bench: None


def kill_prefill(bench):
    bench.pair.prefill.kill()


def stop_prefill(bench):
    bench.pair.prefill.signal(signal.SIGSTOP)


def wrong_token(bench):
    bench.pair.restart_prefill(token=bench.other_token)


def other_decoder(bench):
    """The prefill engine may send to one decoder only, and it is not this one."""
    bench.pair.restart_prefill(decoder_url=f"http://127.0.0.1:{free_port()}")


UNAVAILABLE = "skipped: prefill engine unavailable"
# The request right after a death may still trust the last health check, at most a second old.
GONE = f"{UNAVAILABLE}|declined: "


def killed(blocks):
    """The prefill engine dies when this many of 12 blocks are visible; more may land until the kill takes effect."""
    least = blocks * BLOCK
    covered = f"salvage \\d+/{TOKENS}" if least / TOKENS >= 0.5 else f"declined: .*|salvage \\d+/{TOKENS}"
    return Fault(f"prefill-killed-at-block-{blocks}-of-12", covered, (least, TOKENS - 1), GONE, TOKENS, after_blocks=blocks,
                 during=kill_prefill)


FAULTS = [
    Fault("prefill-not-running", GONE, next_outcome=UNAVAILABLE, before=kill_prefill),
    Fault("prefill-stopped-before-the-request", f"{UNAVAILABLE}|declined: .*no row for", next_outcome=GONE, before=stop_prefill),
    Fault("prefill-stopped-in-mid-transfer", f"salvage \\d+/{TOKENS}|declined: .*no row for", (3 * BLOCK, TOKENS - 1), GONE,
          TOKENS, after_blocks=3, during=stop_prefill),
    killed(1),
    killed(6),
    killed(10),
    Fault("prefill-with-another-token", f"{UNAVAILABLE}.*token", next_outcome=UNAVAILABLE, before=wrong_token),
    Fault("prefill-configured-for-another-decoder", "declined: .*none of the configured ones", next_outcome="declined: ",
          before=other_decoder),
]
