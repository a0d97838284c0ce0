#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: takes one check out of the program at a time and requires that named unit tests fail.

Works on a copy of the sources under build/meta; the compiler cache makes all but the changed file free. A mutation names a
snippet that must occur exactly once in its file: when the code has moved on, the mutation must follow. Each mutation is one
test (RESULTS/NAME.rc), and so is the unchanged copy, on which the same tests must pass.
"""
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COPY = ROOT / "build/meta"
COPIED = ["CMakeLists.txt", "CMakePresets.json", "cmake", "src", "tests/golden"]
TEST_LIMIT_S = 120


@dataclasses.dataclass(frozen=True)
class Mutation:
    name: str          # the check that is taken out
    file: str
    snippet: str
    instead: str
    program: str       # unit-test program
    red: tuple         # tests of it that must fail


HANDOFF, STORE, FLOW = "handoff_test", "store_test", "flow_test"
MUTATIONS = [
    Mutation("token-of-the-sender", "src/handoff/handshake.cpp",
             "if (!equal_constant_time(r.take(32), std::as_bytes(std::span(expected.bytes)))) {",
             "if (!equal_constant_time(r.take(32), std::as_bytes(std::span(expected.bytes))) && false) {", HANDOFF,
             ("Handoff.WrongTokenLearnsAndLandsNothing", "Handoff.RandomBytesInsteadOfAHandshake")),
    Mutation("token-of-the-receiver", "src/handoff/handshake.cpp",
             "if (!equal_constant_time(answer, std::as_bytes(std::span(expected.bytes)))) {",
             "if (!equal_constant_time(answer, std::as_bytes(std::span(expected.bytes))) && false) {", HANDOFF,
             ("Handoff.AReceiverWithoutTheTokenGetsNoRows",)),
    Mutation("identity-of-the-transfer", "src/handoff/open_message.cpp", '{"identity", spec.identity.hex()},',
             '{"identity", std::string(64, \'0\')},', HANDOFF, ("Handoff.RefusesWhatIsNotExpected",)),
    Mutation("ids-of-the-transfer", "src/handoff/open_message.cpp", '{"ids", spec.ids.hex()},',
             '{"ids", std::string(64, \'0\')},', HANDOFF, ("Handoff.RefusesWhatIsNotExpected",)),
    Mutation("order-of-rows", "src/handoff/transfer_check.cpp",
             "if (m.first != taken_to_ || m.last != boundary || m.first_plane != planes_seen_) {",
             "if ((m.first != taken_to_ || m.last != boundary || m.first_plane != planes_seen_) && false) {", HANDOFF,
             ("Handoff.HostileSendersEndTheirTransferAndNothingElse", "Recording.NamesWhatIsExpected")),
    Mutation("sequence-of-frames", "src/handoff/frame.cpp", "if (sizes.sequence != expected_sequence) {",
             "if (sizes.sequence != expected_sequence && false) {", HANDOFF,
             ("Frame.EveryFlippedBitIsSeen", "Handoff.HostileSendersEndTheirTransferAndNothingElse")),
    Mutation("checksum-of-frames", "src/handoff/frame.cpp", "found != sizes.checksum) {", "found != sizes.checksum && false) {",
             HANDOFF, ("Frame.EveryFlippedBitIsSeen", "Recording.EveryFlippedByteIsNamed")),
    Mutation("digest-of-the-seal", "src/handoff/transfer_check.cpp", "theirs == digest())", "theirs != std::string())",
             HANDOFF, ("Handoff.HostileSendersEndTheirTransferAndNothingElse",)),
    Mutation("finite-values", "src/handoff/rows_payload.cpp", "if (!all_finite(p.dtype, t->data)) {",
             "if (!all_finite(p.dtype, t->data) && false) {", HANDOFF,
             ("Handoff.HostileSendersEndTheirTransferAndNothingElse",)),
    Mutation("one-use-of-a-transfer", "src/handoff/incoming.cpp", "if (claimed_ || state_.ended) return false;",
             "if (state_.ended && false) return false;", HANDOFF, ("Handoff.ATransferIsUsedOnce",)),
    Mutation("checksum-of-blocks", "src/store/block_file.cpp", "if (xxh3_64(planes) != h.planes_checksum) return",
             "if (xxh3_64(planes) != h.planes_checksum && false) return", STORE, ("BlockFile.RefusesEveryFlippedBit",)),
    Mutation("key-of-blocks", "src/store/block_file.cpp", "if (block_key(b.parent, b.source, b.ids) != b.key) return",
             "if (block_key(b.parent, b.source, b.ids) != b.key && false) return", STORE,
             ("BlockFile.RefusesWhatContradictsItself",)),
    Mutation("producer-in-keys", "src/flow/block.cpp", ".update(std::as_bytes(std::span(source.producer.bytes)));", ";", FLOW,
             ("BlockKey.ChainsEqualTheGoldenFile",)),
    Mutation("identity-in-keys", "src/flow/block.cpp", ".update(std::as_bytes(std::span(identity.bytes)))",
             ".update(std::as_bytes(std::span(identity.bytes).first(0)))", FLOW, ("BlockKey.ChainsEqualTheGoldenFile",)),
]


def copy_sources():
    """Brings the copy up to date; files that are equal keep their times, so that nothing is built in vain."""
    wanted = set()
    for name in COPIED:
        source = ROOT / name
        for path in [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]:
            target = COPY / path.relative_to(ROOT)
            wanted.add(target)
            if not target.exists() or target.read_bytes() != path.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for name in COPIED:
        for path in (COPY / name).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()


def shell(*command):
    done = subprocess.run(command, cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(done.stdout[-8000:])
    return done.returncode == 0


def build(*programs):
    return shell("cmake", "--build", "build/release", "--target", *programs)


def failing(program, tests):
    """Names of the tests that failed; None when the program crashed, hung or ran something else."""
    command = [COPY / "build/release" / program, "--gtest_brief=1", "--gtest_filter=" + ":".join(tests)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TEST_LIMIT_S)
    except subprocess.TimeoutExpired:
        print(f"{program} ran longer than {TEST_LIMIT_S} s")
        return None
    ran = re.search(r"^\[==========\] (\d+) tests? ", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or not ran or int(ran[1]) != len(tests):
        print(f"{program}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return None
    return set(re.findall(r"^\[  FAILED  \] (\S+) \(", done.stdout, re.MULTILINE))


def unchanged_is_green():
    """The copy as it is builds and passes."""
    if not build(*sorted({m.program for m in MUTATIONS})):
        return False
    results = [failing(m.program, m.red) for m in MUTATIONS]
    for mutation, failed in zip(MUTATIONS, results):
        if failed != set():
            print(f"{mutation.name}: with the check in place: {failed}")
    return all(failed == set() for failed in results)


def turns_red(mutation):
    """The copy without the check fails every named test."""
    path = COPY / mutation.file
    whole = path.read_text()
    if whole.count(mutation.snippet) != 1:
        print(f"{mutation.file}: expected once, found {whole.count(mutation.snippet)} times: {mutation.snippet}")
        return False
    path.write_text(whole.replace(mutation.snippet, mutation.instead))
    try:
        if not build(mutation.program):
            return False
        failed = failing(mutation.program, mutation.red)
    finally:
        path.write_text(whole)
    missed = set(mutation.red) - (failed or set())
    if missed:
        print(f"{mutation.name}: still green without the check: {', '.join(sorted(missed))}")
    return not missed


def main():
    results = pathlib.Path(sys.argv[1])
    copy_sources()
    configured = shell("cmake", "--preset", "release", "-Wno-dev")

    def step(name, passed):
        print(f"{name}: {'ok' if passed else 'FAILED'}", flush=True)
        (results / f"{name}.rc").write_text(f"{0 if passed else 1}\n")

    green = configured and unchanged_is_green()
    step("unchanged", green)
    for mutation in MUTATIONS:
        step(f"without-{mutation.name}", green and turns_red(mutation))


if __name__ == "__main__":
    main()
