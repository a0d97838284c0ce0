# SPDX-License-Identifier: Apache-2.0
"""Seconds from exec to the first answer of `isthmus serve`, and its memory, for each form of prompt weights: one JSON object.

    "$(scripts/venv test)/bin/python" bench/startup.py [--json bench/results/startup.json]

The first start of a form finds an empty cache folder but for the model's digest; the later ones map what the first left there.
  first_s, again_s   from exec to the answer of a short prompt (later starts: median)               bound of again_s 1.0
  peak_bytes         resident memory at most, after a prompt of 4,096 tokens, less the pool it filled; the packed file counts,
                     though processes that map the same one share it
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from harness import ROW_BYTES, Serve, prompt  # noqa: E402

BOUND_S = 1.0
FORMS = ("bf16", "int8", "fp8")
LONG = 4096


def start(cache, form, read_long=False):
    """Seconds to the first answer; with `read_long` also the peak of memory."""
    begun = time.monotonic()
    with Serve("--cache", cache, "--prefill-weights", form, "--ram-store-mib", 0) as serve:
        serve.answer(prompt(16, 1), max_tokens=1)
        seconds = time.monotonic() - begun
        peak = None
        if read_long:
            serve.answer(prompt(LONG, 2), max_tokens=1)
            peak = serve.peak_rss_bytes() - LONG * ROW_BYTES
    return seconds, peak


def measure(form, starts):
    with tempfile.TemporaryDirectory(prefix="isthmus-startup-") as folder:
        start(folder, form)  # computes the digest
        packed = list(pathlib.Path(folder, "packed").glob("*.safetensors"))
        assert len(packed) == 1, packed
        packed_bytes = packed[0].stat().st_size
        packed[0].unlink()
        first, _ = start(folder, form)
        again = [start(folder, form)[0] for _ in range(starts)]
        _, peak = start(folder, form, read_long=True)
    return {"first_s": round(first, 3), "again_s": round(statistics.median(again), 3), "peak_bytes": peak,
            "packed_file_bytes": packed_bytes, "samples_s": [round(s, 3) for s in again]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="also write the object here")
    options = parser.parse_args()
    result = {form: measure(form, options.starts) for form in FORMS}
    result["bound_again_s"] = BOUND_S
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))
    return 0 if all(result[form]["again_s"] <= BOUND_S for form in FORMS) else 1


if __name__ == "__main__":
    sys.exit(main())
