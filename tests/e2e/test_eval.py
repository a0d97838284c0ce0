# SPDX-License-Identifier: Apache-2.0
"""`isthmus eval`: our distributions against another engine's logits; bridged answers against a reference.

The full measurement is scripts/eval; here it is run short, for what must hold whatever the numbers are.
"""
import hashlib
import json
import os
import pathlib
import struct
import subprocess

import pytest

from harness import BINARY, MODEL, ROOT, SHARED_CORES

TINY = ROOT / "tests/golden/llama_tiny"
PROMPT, STEPS = 200, 16


def run(*args):
    return subprocess.run([BINARY, "eval", *map(str, args)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, **SHARED_CORES})


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


PROMPT_TOKENS, CONTINUATION_TOKENS = 60, 8
DOCUMENTS = {"licence.txt": ROOT / "LICENSE", "contributing.txt": ROOT / "CONTRIBUTING.md"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """One prefill model; a decoder with the same weights, and one with Q4_0 of them."""
    folder = tmp_path_factory.mktemp("eval")
    documents = folder / "documents"
    documents.mkdir()
    for name, source in DOCUMENTS.items():
        (documents / name).write_bytes(source.read_bytes()[:1500])
    (documents / "short.txt").write_text("Too short.")
    coarse, out = folder / "coarse.gguf", folder / "result.json"
    subprocess.run([BINARY, "convert", "--model", MODEL, "--to", "q4_0", coarse], check=True, capture_output=True)
    done = run("--model", MODEL, "--prefill", MODEL, "--decoder", MODEL, "--decoder", coarse, "--documents", documents,
               "--prompt-tokens", PROMPT_TOKENS, "--continuation-tokens", CONTINUATION_TOKENS, "--json", out)
    assert done.returncode == 0, done.stderr
    assert "greedy prefix" in done.stdout and "coarse" in done.stdout
    return json.loads(out.read_text())


def scores(result):
    """(what, score) of every comparison."""
    for part in ("prefill_alone", "decoder_alone", "bridged"):
        for entry in result[part]:
            for against in ("vs_reference", "vs_decoder_alone"):
                if against in entry:
                    yield f"{part} {entry.get('name', entry.get('mode'))} {against}", entry[against]


def test_pairs_say_what_was_compared(pairs):
    assert (pairs["format"], pairs["version"]) == ("isthmus-eval", 1)
    assert [d["name"] for d in pairs["documents"]] == sorted(DOCUMENTS)
    assert pairs["documents_too_short"] == ["short.txt"]
    for d in pairs["documents"]:
        assert d["sha256"] == hashlib.sha256(DOCUMENTS[d["name"]].read_bytes()[:1500]).hexdigest()
        assert d["tokens"] >= PROMPT_TOKENS + CONTINUATION_TOKENS
    assert pairs["command"].startswith("isthmus eval --model ") and "--prompt-tokens 60" in pairs["command"]
    assert len({e["weights"] for e in (pairs["reference"], *pairs["prefill_alone"], *pairs["decoder_alone"])}) == 2
    assert len(pairs["bridged"]) == 4 and {p["mode"] for p in pairs["bridged"]} == {"kv", "project"}


def test_pairs_give_numbers_that_can_be(pairs):
    for what, score in scores(pairs):
        assert score["positions"] == len(DOCUMENTS) * CONTINUATION_TOKENS, what
        assert len(score["kl_by_document"]) == len(DOCUMENTS), what
        for name in ("kl_mean", "kl_p95", "top1_agreement", "greedy_prefix"):
            assert score[name]["low"] <= score[name]["high"], (what, name)
        for name in ("kl_mean", "top1_agreement", "greedy_prefix"):  # of two documents, the mean lies between both
            assert score[name]["low"] <= score[name]["value"] <= score[name]["high"], (what, name)
        assert 0 <= score["kl_mean"]["value"] < 5 and 0 <= score["top1_agreement"]["value"] <= 1, what
        assert 0 <= score["greedy_prefix"]["value"] <= CONTINUATION_TOKENS, what
    assert all(d["vs_reference"]["kl_mean"]["value"] > 0 for d in pairs["decoder_alone"])


def test_pairs_with_the_same_weights_differ_in_nothing(pairs):
    (fine,) = [d for d in pairs["decoder_alone"] if d["name"] != "coarse"]
    same = [p for p in pairs["bridged"] if p["decoder"] == fine["name"]]
    assert len(same) == 2
    for p in same:
        alone = p["vs_decoder_alone"]
        assert (alone["kl_mean"]["high"], alone["kl_p95"]["high"]) == (0, 0), p["mode"]
        assert (alone["top1_agreement"]["value"], alone["greedy_prefix"]["value"]) == (1, CONTINUATION_TOKENS), p["mode"]
        assert p["vs_reference"] == fine["vs_reference"], p["mode"]
        assert set(p["plane_error"]["k"] + p["plane_error"]["v"]) == {0}, p["mode"]


def test_pairs_with_different_weights_differ(pairs):
    different = [p for p in pairs["bridged"] if p["decoder"] == "coarse"]
    assert len(different) == 2
    for p in different:
        assert p["vs_decoder_alone"]["kl_mean"]["value"] > 0, p["mode"]
        errors = p["plane_error"]["k"] + p["plane_error"]["v"]
        assert len(errors) == 60 and all(0 <= e < 1 for e in errors) and max(errors) > 0.01, p["mode"]
    by_mode = {p["mode"]: p["plane_error"] for p in different}
    assert by_mode["kv"]["k"][0] > 0, "the first layer's own rows differ by its weights"
    assert by_mode["project"]["v"][0] < by_mode["kv"]["v"][0], "its projected rows only by the embedding"


@pytest.mark.parametrize("args, sentence", [
    ((), "expected --reference-logits, or --prefill"),
    (("--prefill", MODEL, "--decoder", MODEL), "--documents"),
    (("--prefill", MODEL, "--reference-logits", "x"), "excludes"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", "/nonexistent"), "/nonexistent"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs/decisions", "--prompt-tokens", 8000), "has 8064 tokens"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs", "--prompt-tokens", 1), "--prompt-tokens"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs", "--prompt-tokens", 2**63 - 1), "--prompt-tokens"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs", "--continuation-tokens", 2**63 - 1), "--continuation-tokens"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs", "--json", "/nonexistent/out.json"), "/nonexistent/out.json"),
    (("--prefill", MODEL, "--decoder", MODEL, "--documents", ROOT / "docs", "--json", "/dev/full"), "expected a file"),
])
def test_pairs_say_what_is_missing(args, sentence):
    done = run("--model", MODEL, *args)
    assert done.returncode != 0 and sentence in done.stderr, done.stderr
