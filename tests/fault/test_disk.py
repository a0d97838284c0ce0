# SPDX-License-Identifier: Apache-2.0
"""The decode box's disk: full in the middle of a block, and the process killed at each step of a block write."""
import contextlib
import itertools
import json
import pathlib
import re
import resource
import shutil
import signal
import subprocess

import httpx
import pytest

from bench import LIMITS
from harness import BINARY, BLOCK, InBackground, Pair, Serve, outcome, prompt

TOKENS = 4 * BLOCK + 50  # four whole blocks and a tail
MIB = 1 << 20


@pytest.fixture(scope="session")
def disk_shim(tmp_path_factory):
    library = tmp_path_factory.mktemp("shim") / "disk_shim.so"
    source = pathlib.Path(__file__).with_name("disk_shim.c")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "no C compiler"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}


def tool(*args, code=0, under=()):
    done = subprocess.run([*under, BINARY, *map(str, args), "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def whole_files(store):
    return sorted(store.rglob("*.isb"))


def temporary_files(store):
    return sorted(store.rglob("*.tmp"))


# Step of the third block's write; whether that block then is on disk; whether a temporary file is left by the death.
STEPS = {
    "torn": (False, True),
    "written": (False, True),
    "synced": (False, True),
    "renamed": (True, False),
    "published": (True, False),
    "indexing": (True, False),
    "indexed": (True, True),  # of the next block
}


@pytest.fixture(scope="module")
def killed_pair():
    with Pair(LIMITS, ["--chunk", 128]) as pair:
        yield pair


@pytest.fixture(scope="module")
def whole_store(killed_pair, tmp_path_factory):
    """What a server leaves that is not killed."""
    store = tmp_path_factory.mktemp("whole")
    killed_pair.serve_args = [*LIMITS, "--store", store]
    killed_pair.restart_serve()
    assert outcome(killed_pair.serve.answer(prompt(TOKENS, seed=60)).verdict) == "complete"
    assert killed_pair.serve.stop() == 0
    return store


@pytest.mark.parametrize("step", STEPS)
def test_kill_at_each_step_of_a_block_write(step, killed_pair, whole_store, disk_shim, tmp_path, baseline):
    ids, pair = prompt(TOKENS, seed=60), killed_pair
    third_is_there, leaves_temporary = STEPS[step]
    durable = 3 if third_is_there else 2
    pair.serve_args = [*LIMITS, "--store", tmp_path]
    pair.serve_env = {**disk_shim, "DISK_SHIM_DIE": f"{step}:3"}
    pair.restart_serve()
    pair.serve_env = None
    pending = InBackground(pair.serve.answer, ids)
    assert pair.serve.process.wait(60) == -signal.SIGKILL
    try:
        pending.result()  # visible comes before durable: the answer may have been given
    except httpx.HTTPError:
        pass
    assert bool(temporary_files(tmp_path)) == leaves_temporary
    files = whole_files(tmp_path)
    assert len(files) == durable

    pair.restart_serve(kill=True)
    assert temporary_files(tmp_path) == []
    assert whole_files(tmp_path) == files
    stats = pair.serve.stats()["store"]
    assert (stats["disk_blocks"], stats["quarantined"]) == (durable, 0)
    reply = pair.serve.answer(ids)
    assert outcome(reply.verdict) == "complete"
    assert reply.verdict["cached_prefix"] == durable * BLOCK
    assert reply.verdict["shipped"] == TOKENS - 1 - durable * BLOCK
    assert reply.debug["computed_tokens"] == 1
    assert reply.answer == baseline.answer(ids)
    pair.wait_idle()
    assert pair.serve.stop() == 0
    seen = tool("verify-blocks", whole_store, tmp_path)
    assert seen["common_identical"] == len(whole_files(whole_store)) == len(whole_files(tmp_path)), seen


class FullDisk:
    """A store directory that can be filled from outside. `seen`: its path from here; env, under: what the server starts with."""

    def __init__(self, store, fill, empty, seen=None, env=None, under=()):
        self.store, self.seen, self.fill, self.empty = store, seen or store, fill, empty
        self.env, self.under = env, under


@contextlib.contextmanager
def small_file_system(folder):
    """A file system at `folder` whose bytes, or whose files, can run out: its path from here, and the command under which others
    see it at `folder`. It is mounted in name spaces of its own, which takes no rights and ends with the process that holds them."""
    folder.mkdir()
    mount = f'mount -t tmpfs -o size={128 * MIB},nr_inodes=1000 isthmus-test "$0" && echo mounted && exec cat'
    holder = subprocess.Popen(["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if holder.stdout.readline() != "mounted\n":
            pytest.fail(f"no file system of one's own: {holder.stderr.read().strip()}; the kernel, or the container, must allow user name "
                        "spaces (sysctl user.max_user_namespaces; docker run --security-opt seccomp=unconfined)")
        yield (pathlib.Path(f"/proc/{holder.pid}/root{folder}"),
               ["nsenter", f"--target={holder.pid}", "--user", "--mount", "--preserve-credentials"])
    finally:
        holder.communicate()


@pytest.fixture
def disk(request, tmp_path, disk_shim):
    if request.param == "injected":
        full = tmp_path / "full"
        yield FullDisk(tmp_path / "store", full.touch, full.unlink, env={**disk_shim, "DISK_SHIM_FULL": str(full)})
        return
    folder = tmp_path / "small"
    with small_file_system(folder) as (seen, under):
        filler = seen / "filler"

        def fill():
            """Leaves room for two blocks and a half, or for no further file at all."""
            filler.mkdir()
            if request.param == "bytes":
                (filler / "bytes").write_bytes(bytes(shutil.disk_usage(seen).free - 15 * MIB))
                return
            with pytest.raises(OSError, match="No space"):
                for n in itertools.count():
                    (filler / str(n)).touch()

        yield FullDisk(folder / "store", fill, lambda: shutil.rmtree(filler), seen=seen / "store", under=under)


@pytest.mark.parametrize("disk, reader", [("bytes", "bridge"), ("files", "native"), ("injected", "bridge"), ("injected", "native")],
                         indirect=["disk"])
def test_full_disk_costs_durability_and_nothing_else(disk, reader, baseline):
    first, during, after = (prompt(TOKENS, seed=70 + i) for i in range(3))
    args = ["--store", disk.store, "--disk-floor-mib", 0]
    complete = "complete" if reader == "bridge" else "skipped: no prefill engine configured"
    with pair_or_serve(reader, args, disk) as box:
        check(box.serve, first, complete, baseline)
        before = box.serve.stats()["store"]
        assert before["failed_writes"] == 0 and before["disk_blocks"] >= 5

        disk.fill()
        reply = check(box.serve, during, complete, baseline)
        if reader == "bridge":
            assert reply.verdict["B"] == TOKENS - 1 and reply.verdict["blocks"] == 5
        stats = box.serve.stats()["store"]
        assert stats["failed_writes"] + stats["floor_skipped_writes"] > 0
        assert stats["puts"] - before["puts"] >= 5, "all blocks are visible"
        assert re.search("block writes (fail|stop)", box.serve.log())
        assert temporary_files(disk.seen) == []
        assert len(whole_files(disk.seen)) == stats["disk_blocks"], "a file that no entry knows"
        reply = box.serve.answer(during)
        assert reply.debug["computed_tokens"] == 1, "served from memory"
        assert reply.answer == baseline.answer(during)

        disk.empty()
        check(box.serve, after, complete, baseline)
        assert box.serve.stats()["store"]["disk_writes"] >= stats["disk_writes"] + 5
        assert box.serve.answer(during).debug["computed_tokens"] == 1, "what is used again is written now"
        box.serve.wait_idle()
        box.serve.wait_written()
        durable = box.serve.stats()["store"]["disk_blocks"]

        box.restart_serve()
        stats = box.serve.stats()["store"]
        assert (stats["disk_blocks"], stats["quarantined"]) == (durable, 0)
        assert tool("inspect", disk.store, under=disk.under)["blocks"] == durable
        for ids in (first, during, after):
            reply = box.serve.answer(ids)
            assert outcome(reply.verdict).startswith("skipped: "), "nothing is missing"
            assert reply.debug["cached_tokens"] == TOKENS - 1
            assert reply.answer == baseline.answer(ids)


def check(serve, ids, expected, baseline):
    reply = serve.answer(ids)
    assert outcome(reply.verdict) == expected
    assert reply.answer == baseline.answer(ids)
    serve.wait_idle()
    serve.wait_written()
    return reply


class Alone:
    """A decode server without a prefill engine, restarted like a pair's."""

    def __init__(self, args, disk):
        self.args, self.disk = args, disk

    def __enter__(self):
        self.serve = Serve(*self.args, env=self.disk.env, under=self.disk.under).__enter__()
        return self

    def __exit__(self, *_):
        if self.serve.alive():
            self.serve.stop()

    def restart_serve(self):
        self.serve.stop()
        self.serve = Serve(*self.args, env=self.disk.env, under=self.disk.under).__enter__()


def pair_or_serve(reader, args, disk):
    if reader == "native":
        return Alone(args, disk)
    return Pair([*LIMITS, *args], ["--chunk", 128], serve_env=disk.env, serve_under=disk.under)


def test_limit_on_file_sizes_costs_durability_and_nothing_else(tmp_path, baseline):
    """As a service manager or a shell may set one: blocks stay in memory, the server lives."""
    ids = prompt(TOKENS, 9300)
    with Serve("--store", tmp_path / "store") as serve:
        resource.prlimit(serve.process.pid, resource.RLIMIT_FSIZE, (MIB, MIB))
        assert serve.answer(ids).answer == baseline.answer(ids)
        serve.wait_written()
        assert whole_files(tmp_path / "store") == temporary_files(tmp_path / "store") == []
        warm = serve.answer(ids)
        assert warm.answer == baseline.answer(ids) and warm.debug["computed_tokens"] == 1
