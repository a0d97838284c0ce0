# SPDX-License-Identifier: Apache-2.0
import pytest

from bench import LIMITS, Bench
from harness import Pair, prompt


@pytest.fixture(scope="session")
def token(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text("a secret that both boxes hold\n")
    return path


@pytest.fixture(scope="session")
def bench(tmp_path_factory, token):
    folder = tmp_path_factory.mktemp("bench")
    other = folder / "other-token"
    other.write_text("a secret that nobody else holds\n")
    store = folder / "store"
    with Pair([*LIMITS, "--store", store], ["--chunk", 128], token=token) as pair:
        b = Bench(pair, store, other)
        pair.serve.answer(prompt(300, seed=1))
        pair.wait_idle()
        b.serve_fds = pair.serve.open_fds()
        yield b
