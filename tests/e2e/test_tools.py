# SPDX-License-Identifier: Apache-2.0
"""The tools of the binary: inspect, verify-blocks, diff-state, export-projection, convert, doctor."""
import json
import pathlib
import shutil
import subprocess
import urllib.request

import pytest

from harness import BINARY, MODEL, ROOT, Serve

BLOCK = ROOT / "tests/golden/block/v1.isb"
RECORDING = ROOT / "tests/golden/handoff/v1.ish"
NOBODY = "http://127.0.0.1:9"


def run(*args):
    return subprocess.run([BINARY, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)


def result(*args, code=0):
    """The JSON object of a tool that must end with `code`."""
    done = run(*args, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def checks(report):
    return {c["name"]: c for c in report["checks"]}


@pytest.fixture(scope="module")
def decoder():
    """URL of a decode server without a prefill engine."""
    with Serve() as serve:
        yield serve.url


@pytest.fixture
def flipped(tmp_path):
    """The golden block with one bit of its last value changed."""
    data = bytearray(BLOCK.read_bytes())
    data[-1] ^= 1
    path = tmp_path / "flipped.isb"
    path.write_bytes(data)
    return path


def store_with(folder, block):
    """A store folder that holds this block under the golden block's name."""
    found = result("inspect", BLOCK)
    place = folder / found["identity"] / found["key"][:2]
    place.mkdir(parents=True)
    shutil.copy(block, place / (found["key"] + ".isb"))
    return folder


def test_inspect_describes_the_model():
    model = result("inspect", MODEL)
    assert (model["what"], model["family"], model["dimensions"]["layers"]) == ("GGUF model", "llama", 30)
    assert model["tokenizer"]["vocab"] == 49152 and model["tokenizer"]["chat_template"] is True
    assert len(model["weights_digest"]) == 64
    assert "chat_template" in run("inspect", MODEL).stdout


def test_inspect_describes_a_block_and_says_when_it_is_damaged(flipped):
    block = result("inspect", BLOCK)
    assert block["source"]["kind"] == "project" and block["transfer"] == "t-1"
    assert block["tokens"] == {"first": 4, "count": 3} and block["ids"] == [7, -1, 49151]
    assert block["checksums"].startswith("ok") and "damaged" not in block
    assert "planes checksum" in result("inspect", flipped, code=1)["damaged"]
    flipped.write_bytes(b"\0" + BLOCK.read_bytes()[1:])
    assert "not a block file" in result("inspect", flipped, code=1)["damaged"]


def test_inspect_checks_a_recording():
    recording = result("inspect", RECORDING)
    assert recording["what"] == "handoff recording" and "damaged" not in recording
    assert recording["open"]["tokens"] == 20 and recording["open"]["rows"] == {"first": 0, "last": 19}
    assert [(f["offset"], f["frame"], f["rows"]) for f in recording["frames"]] == [
        (0, "OPEN", "-"), (930, "ROWS", "0..8"), (1567, "ROWS", "8..16"), (2209, "ROWS", "16..19"), (2788, "SEAL", "-")]
    assert recording["end"].startswith("sealed") and recording["whole_blocks_to"] == 19 and recording["plane_bytes"] == 444
    assert "sealed" in run("inspect", RECORDING).stdout


@pytest.mark.parametrize("at,damage", [
    (0, "offset 0, frame 0: handoff frame: bad magic"),
    (1600, "offset 1567, frame 2: handoff frame: checksum of ROWS: expected "),
    (-1, "offset 2788, frame 4: handoff frame: checksum of SEAL: expected "),
])
def test_inspect_names_the_first_damage_of_a_recording(at, damage, tmp_path):
    data = bytearray(RECORDING.read_bytes())
    data[at] ^= 1
    (tmp_path / "bad.ish").write_bytes(data)
    assert result("inspect", tmp_path / "bad.ish", code=1)["damaged"].startswith(damage)


def test_inspect_tells_a_cut_transfer_from_a_damaged_recording(tmp_path):
    (tmp_path / "cut.ish").write_bytes(RECORDING.read_bytes()[:2788])
    cut = result("inspect", tmp_path / "cut.ish")
    assert cut["end"] == "cut" and cut["whole_blocks_to"] == 19 and "damaged" not in cut
    (tmp_path / "bad.ish").write_bytes(RECORDING.read_bytes()[:2787])
    assert result("inspect", tmp_path / "bad.ish", code=1)["damaged"].startswith("offset 2209, frame 3: ")


def test_inspect_counts_a_store_and_purges_a_producer(tmp_path):
    store = store_with(tmp_path / "store", BLOCK)
    block = result("inspect", BLOCK)
    counted = result("inspect", store)
    source = counted["identities"][block["identity"]]["sources"][0]
    assert counted["blocks"] == source["blocks"] == 1
    assert source["bytes"] == counted["total_bytes"] == BLOCK.stat().st_size
    assert source["producer"] == block["source"]["producer"]
    assert run("inspect", "--purge-source", "abc", store).returncode == 2
    assert result("inspect", "--purge-source", "0" * 64, store)["removed_blocks"] == 0
    assert result("inspect", "--purge-source", source["producer"], store)["removed_blocks"] == 1
    assert result("inspect", store)["blocks"] == 0


def test_inspect_refuses_what_it_does_not_know(tmp_path):
    for path in (tmp_path, tmp_path / "absent", pathlib.Path(__file__)):
        done = run("inspect", path)
        assert done.returncode == 1 and str(path) in done.stderr


def test_verify_blocks_finds_one_bit(flipped, tmp_path):
    assert result("verify-blocks", BLOCK, BLOCK)["identical"] is True
    seen = result("verify-blocks", BLOCK, flipped, code=1)
    assert [p["plane"] for p in seen["different_planes"]] == ["L0.v"]
    plane = seen["different_planes"][0]
    assert (plane["values"], plane["bit_exact"]) == (6, 5) and plane["max_abs"] > 0
    assert seen["planes_checksum_wrong"] == ["b"] and seen["metadata_differences"] == []
    a, b = store_with(tmp_path / "a", BLOCK), store_with(tmp_path / "b", flipped)
    assert result("verify-blocks", a, a)["common_identical"] == 1
    assert len(result("verify-blocks", a, b, code=1)["different"]) == 1
    assert run("verify-blocks", a, BLOCK).returncode == 2
    (empty := tmp_path / "empty").mkdir()
    for pair in ((a, empty), (empty, a), (empty, empty)):
        nothing = run("verify-blocks", *pair)
        assert nothing.returncode == 1 and "no block files" in nothing.stderr


def test_export_projection_is_what_the_server_publishes(decoder, tmp_path):
    pack = tmp_path / "pack.safetensors"
    written = result("export-projection", pack, "--model", MODEL)
    with urllib.request.urlopen(decoder + "/v1/identity") as reply:
        served = json.load(reply)["identity"]["fields"]["projection"]
    assert written["digest"] == served == result("inspect", pack)["digest"]
    with urllib.request.urlopen(decoder + "/v1/projection") as reply:
        assert reply.read() == pack.read_bytes()
    same = result("diff-state", pack, pack)
    assert same["identical"] is True and same["tensors_bit_exact"] == same["tensors_compared"] == 90
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    other = tmp_path / "other.safetensors"
    other.write_bytes(data)
    worst = result("diff-state", pack, other, code=1)["worst"]
    assert len(worst) == 1 and worst[0]["bit_exact"] == worst[0]["values"] - 1


def test_convert_requantizes_the_matrices_only(tmp_path):
    out = tmp_path / "q4_0.gguf"
    assert result("convert", "--model", MODEL, "--to", "q4_0", out)["converted_tensors"] == 211
    types = {t["type"]: t["tensors"] for t in result("inspect", out)["tensors"]}
    assert types == {"f32": 61, "q4_0": 211}
    assert "--force" in run("convert", "--model", MODEL, "--to", "q4_0", out).stderr
    assert run("convert", "--model", MODEL, "--to", "q3_k", tmp_path / "x.gguf").returncode != 0
    assert run("convert", "--model", out, "--to", "f16", out, "--force").returncode == 2, "never over its own input"


def test_convert_to_fp8_changes_layers_and_keeps_the_form_of_bf16(tmp_path):
    plain, fp8, layers = tmp_path / "bf16.gguf", tmp_path / "fp8.gguf", tmp_path / "layers.gguf"
    a = result("convert", "--model", MODEL, "--to", "bf16", plain)
    b = result("convert", "--model", MODEL, "--to", "fp8", fp8)
    assert a["tensors"] == b["tensors"] and a["out_bytes"] == b["out_bytes"]
    assert result("inspect", plain)["weights_digest"] != result("inspect", fp8)["weights_digest"]
    again = result("convert", "--model", fp8, "--to", "fp8", tmp_path / "again.gguf")
    assert again["converted_tensors"] == 210, "the layers' matrices; the embedding is bf16 already"
    assert result("convert", "--model", MODEL, "--to", "mxfp4", "--layers-only", layers)["converted_tensors"] == 210


def test_doctor_passes_a_decoder_on_its_own(decoder, tmp_path):
    report = result("doctor", "--decoder", decoder, "--model", MODEL, "--store", tmp_path / "new", "--round-trip")
    found = checks(report)
    assert report["ok"] is True
    for name in ("decoder", "decoder identity", "projection pack", "model file", "memory", "disk", "round trip"):
        assert found[name]["state"] == "ok", found[name]
    assert found["handoff port"]["state"] == "skipped"


def test_doctor_says_what_to_do(decoder):
    report = result("doctor", "--decoder", NOBODY, "--prefill", NOBODY, code=1)
    failed = [c for c in report["checks"] if c["state"] == "failed"]
    assert {c["name"] for c in failed} == {"decoder", "prefill"}
    assert all("isthmus" in c["remedy"] for c in failed)
    assert "->" in run("doctor", "--decoder", NOBODY).stdout
    lonely = checks(result("doctor", "--decoder", decoder, "--prefill", NOBODY, "--round-trip", code=1))
    assert "--prefill" in lonely["handoff port"]["remedy"]
    assert lonely["round trip"]["state"] == "failed"


@pytest.mark.parametrize("tool", ["inspect", "verify-blocks", "diff-state", "export-projection", "convert", "doctor"])
def test_unknown_flags_are_refused(tool):
    assert run(tool, "--no-such-flag").returncode != 0
