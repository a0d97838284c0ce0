# SPDX-License-Identifier: Apache-2.0
"""What makes two blocks the same: keys that every process computes alike, and nothing shared between models, block sizes
or sources."""
import json
import shutil
import subprocess

from bench import LIMITS
from block_keys import chain_keys
from harness import BINARY, BLOCK, CLIENT, MODEL, Pair, Serve, outcome, prompt
from patch_gguf import flip_bit_of_tensor

TOKENS = 2 * BLOCK + 100
BLOCKS = 4  # of a bridged prompt: two whole ones, its tail, and the tail with the answer's rows


def inspect(*args):
    done = subprocess.run([BINARY, "inspect", *map(str, args), "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def digest_of(url):
    """The identity of a decode server, or the producer that a prefill engine is."""
    identity = CLIENT.get(url + "/v1/identity").json()
    return identity["producer"] if "producer" in identity else identity["identity"]["digest"]


def sources(store):
    """Blocks of each kind of source in a store of at most one identity."""
    return {source["source"]: source["blocks"] for identity in inspect(store)["identities"].values() for source in identity["sources"]}


def test_keys_of_a_real_store_follow_from_the_format_alone(tmp_path):
    ids = prompt(1001, seed=80)
    for environment in ({}, {"LC_ALL": "C", "TZ": "Asia/Kathmandu", "MALLOC_PERTURB_": "37"}):
        store = tmp_path / f"store-{len(environment)}"
        with Pair([*LIMITS, "--store", store], serve_env=environment) as pair:
            assert outcome(pair.serve.answer(ids).verdict) == "complete"
            pair.serve.wait_written()
            identity, producer = digest_of(pair.serve.url), digest_of(pair.prefill.url)
        expected = chain_keys(bytes.fromhex(identity), "project", bytes.fromhex(producer), ids[:-1], BLOCK)
        assert len(expected) == 4
        for key in expected:
            assert (store / identity / key[:2] / f"{key}.isb").is_file()


def test_the_decoder_alone_says_how_long_a_block_is(tmp_path, baseline):
    """The prefill engine has no block size of its own, and blocks of another size are never found."""
    ids = prompt(600, seed=81)
    with Pair([*LIMITS, "--store", tmp_path, "--block-tokens", 64]) as pair:
        for size in (64, 128, 1000):
            pair.serve_args[-1] = size
            pair.restart_serve()
            reply = pair.serve.answer(ids)
            assert outcome(reply.verdict) == "complete"
            assert reply.verdict["cached_prefix"] == 0
            assert reply.verdict["blocks"] == -(-599 // size)
            assert reply.answer == baseline.answer(ids)
            assert outcome(pair.serve.answer(ids).verdict).startswith("skipped: warm"), "matches are found"
            pair.wait_idle()
            pair.serve.wait_written()
    assert len(inspect(tmp_path)["identities"]) == 3


def test_models_that_differ_in_one_tensor_share_no_block(tmp_path, baseline):
    """One path, so one name; the file behind it changes, once in place, once replaced."""
    ids, model, store = prompt(TOKENS, seed=82), tmp_path / "model.gguf", tmp_path / "store"
    shutil.copyfile(MODEL, model)
    digests, files = set(), 0
    for changed in (None, "blk.5.ffn_up.weight", "blk.11.attn_q.weight", "token_embd.weight", "blk.29.ffn_down.weight"):
        if changed:
            flip_bit_of_tensor(model, changed)
        with Serve("--store", store, model=model) as serve:
            digests.add(digest_of(serve.url))
            reply = serve.answer(ids)
            assert reply.debug["cached_tokens"] == 0, f"a block of another model was used ({changed})"
            assert serve.answer(ids).debug["cached_tokens"] == TOKENS - 1
            serve.wait_written()
            assert serve.stats()["store"]["quarantined"] == 0
        files += 1
        assert len(inspect(store)["identities"]) == len(digests) == files
    other = tmp_path / "copy.gguf"
    shutil.copyfile(MODEL, other)
    other.replace(model)
    with Serve("--store", store, model=model) as serve:
        assert digest_of(serve.url) in digests
        reply = serve.answer(ids)
        assert reply.debug["cached_tokens"] == TOKENS - 1, "its own blocks are still there"
        assert reply.answer == baseline.answer(ids)


def test_kv_project_and_native_rows_never_mix(tmp_path, baseline):
    ids = prompt(TOKENS, seed=83)
    longer = ids + prompt(500, seed=84)
    baseline.answer(longer)  # before `ids`, whose last token has a decode step's bits there
    with Pair([*LIMITS, "--store", tmp_path, "--capture", "project"]) as pair:
        first = pair.serve.answer(ids)
        assert (outcome(first.verdict), first.verdict["mode"]) == ("complete", "project")
        pair.serve.wait_written()
        assert sources(tmp_path) == {"project": BLOCKS}

        pair.serve_args[-1] = "kv"
        pair.restart_serve()
        reply = pair.serve.answer(ids)
        assert (outcome(reply.verdict), reply.verdict["mode"]) == ("complete", "kv")
        assert reply.verdict["cached_prefix"] == 0 and reply.verdict["shipped"] == TOKENS - 1
        assert reply.answer == baseline.answer(ids)
        pair.serve.wait_written()
        assert sources(tmp_path) == {"project": BLOCKS, "kv": BLOCKS}

        # A longer prompt goes on from the rows of its own kind only.
        reply = pair.serve.answer(longer)
        assert reply.verdict["cached_prefix"] == 2 * BLOCK
        assert reply.answer == baseline.answer(longer)
        pair.serve.wait_written()
        assert sources(tmp_path)["project"] == BLOCKS

        pair.serve_args[-1] = "project"
        pair.restart_serve()
        reply = pair.serve.answer(ids)
        assert outcome(reply.verdict).startswith("skipped: warm")
        assert reply.answer == baseline.answer(ids)
        producer = digest_of(pair.prefill.url)
        pair.serve.stop()

        assert inspect("--purge-source", producer, tmp_path)["removed_blocks"] > 2 * BLOCKS
        assert sources(tmp_path) == {}
    with Serve("--store", tmp_path) as serve:
        reply = serve.answer(ids)
        assert reply.debug["cached_tokens"] == 0
        assert reply.answer == baseline.answer(ids)
        serve.wait_written()
        assert sources(tmp_path) == {"native": 3}


def test_blocks_that_another_process_wrote_are_found(tmp_path, baseline):
    ids, damaged = prompt(TOKENS, seed=85), prompt(TOKENS, seed=86)
    with Serve("--store", tmp_path / "writer") as writer, Serve("--store", tmp_path / "reader") as reader:
        for p in (ids, damaged):
            writer.answer(p)
        writer.wait_written()
        identity = digest_of(writer.url)
        keys = [chain_keys(bytes.fromhex(identity), "native", bytes(32), p[: 2 * BLOCK], BLOCK) for p in (ids, damaged)]
        for key in keys[0] + keys[1]:
            name = f"{identity}/{key[:2]}/{key}.isb"
            target = tmp_path / "reader" / name
            target.parent.mkdir(exist_ok=True)
            data = bytearray((tmp_path / "writer" / name).read_bytes())
            data[-1] ^= key == keys[1][1]
            target.write_bytes(data)
        for p, cached in ((ids, 2 * BLOCK), (damaged, BLOCK)):
            reply = reader.answer(p)
            assert reply.debug["cached_tokens"] == cached
            assert reply.answer == baseline.answer(p)
        stats = reader.stats()["store"]
        assert (stats["adopted"], stats["quarantined"]) == (3, 1)
