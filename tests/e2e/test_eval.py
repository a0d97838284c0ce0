# SPDX-License-Identifier: Apache-2.0
"""`isthmus eval`: our distributions against another engine's logits."""
import json
import pathlib
import struct
import subprocess

import pytest

from harness import BINARY, ROOT

TINY = ROOT / "tests/golden/llama_tiny"
PROMPT, STEPS = 200, 16


def run(*args):
    return subprocess.run([BINARY, "eval", *map(str, args)], capture_output=True, text=True, timeout=300, check=False)


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + size:][slice(*t["data_offsets"])]) for name, t in header.items()}


def write_safetensors(path, tensors, metadata=None):
    header, data = {"__metadata__": metadata or {}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def ints(values):
    return "I32", [len(values)], struct.pack(f"<{len(values)}i", *values)


@pytest.fixture(scope="module")
def transformers_logits():
    """What transformers said of the tiny model's own greedy answer: ids, and logits after the ids from the last prompt token on."""
    golden = read_safetensors(TINY / "expected.safetensors")
    ids = b"".join(golden[name][2] for name in ("input_ids", "greedy_ids"))
    assert len(ids) == 4 * (PROMPT + STEPS) and golden["greedy_logits"][1][0] == STEPS + 1
    return {"ids": ("I32", [PROMPT + STEPS], ids), "logits": golden["greedy_logits"]}


def test_reference_logits_of_the_same_model_are_close(transformers_logits, tmp_path):
    as_tensor = write_safetensors(tmp_path / "a.safetensors", {**transformers_logits, "first": ints([PROMPT - 1])})
    as_metadata = write_safetensors(tmp_path / "b.safetensors", transformers_logits, {"first": str(PROMPT - 1)})
    out = tmp_path / "result.json"
    done = run("--model", TINY, "--reference-logits", as_tensor, "--reference-logits", as_metadata, "--json", out)
    assert done.returncode == 0, done.stderr
    assert "kl_mean" in done.stdout
    result = json.loads(out.read_text())
    assert [(f["ids"], f["first"], f["positions"]) for f in result["files"]] == 2 * [(PROMPT + STEPS, PROMPT - 1, STEPS + 1)]
    for arithmetic in ("prompt_arithmetic", "step_arithmetic"):
        found = result[arithmetic]
        assert found["positions"] == 2 * (STEPS + 1)
        assert 0 < found["kl_mean"] <= found["kl_p95"] <= found["kl_max"] < 1e-3
        assert found["top1_agreement"] >= 0.9


def test_reference_logits_one_token_off_are_not(transformers_logits, tmp_path):
    off = write_safetensors(tmp_path / "off.safetensors", transformers_logits, {"first": str(PROMPT - 2)})
    out = tmp_path / "result.json"
    assert run("--model", TINY, "--reference-logits", off, "--json", out).returncode == 0
    assert json.loads(out.read_text())["step_arithmetic"]["kl_mean"] > 0.01


@pytest.mark.parametrize("change, sentence", [
    ({"ids": ("F32", [2], bytes(8))}, "ids: expected I32"),
    ({"ids": ints(range(4))}, "rows for tokens 0 to 16, but there are 4 ids"),
    ({"ids": ints(2**18 * [1])}, "ids: expected at most"),
    ({"ids": ints(20 * [-1])}, "token id"),
    ({"logits": ("F32", [2, 3], bytes(24))}, "logits: expected [rows, "),
    ({"first": ints([PROMPT])}, "rows for tokens 200 to 216"),
    ({"first": ints([-1])}, "rows for tokens -1"),
    ({"first": ints([1, 2])}, "expected one I32 or I64"),
])
def test_reference_logits_that_do_not_fit_are_refused(transformers_logits, tmp_path, change, sentence):
    bad = write_safetensors(tmp_path / "bad.safetensors", {**transformers_logits, **change})
    done = run("--model", TINY, "--reference-logits", bad)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr
