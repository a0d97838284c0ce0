# SPDX-License-Identifier: Apache-2.0
"""The bench on which faults are made: a pair with a store, a secret, and limits small enough to wait for."""
import dataclasses
import pathlib

from harness import Pair, wait_until

PATIENT_LIMITS = ["--min-tokens", 256, "--min-tail", 2, "--min-coverage", 0.4]
LIMITS = [*PATIENT_LIMITS, "--stall-timeout", 5]


@dataclasses.dataclass
class Bench:
    pair: Pair
    store: pathlib.Path
    other_token: pathlib.Path
    serve_fds: int = 0

    @property
    def serve(self):
        return self.pair.serve

    def settle(self):
        """Every trace of earlier requests is gone: work, transfers, descriptors, unfinished files."""
        self.pair.wait_idle()
        self.serve.wait_written()
        wait_until(lambda: self.serve.open_fds() <= self.serve_fds + 2,
                   f"{self.serve_fds} open descriptors (now {self.serve.open_fds()})", timeout=20)
        assert not list(self.store.rglob("*.tmp"))
