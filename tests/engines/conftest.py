# SPDX-License-Identifier: Apache-2.0
"""The peers' wrappers are shared with the benchmarks."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
