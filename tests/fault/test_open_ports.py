# SPDX-License-Identifier: Apache-2.0
"""What a stranger gets: nothing off loopback without a token, nothing from a foreign web page, no secret, no file."""
import httpx
import pytest

from bench import LIMITS
from harness import Pair, Serve, outcome, prompt


@pytest.fixture(scope="module")
def secret_pair(tmp_path_factory, token):
    with Pair([*LIMITS, "--store", tmp_path_factory.mktemp("store"), "--log", "trace"], ["--log", "trace"], token=token) as pair:
        assert outcome(pair.serve.answer(prompt(300, seed=130)).verdict) == "complete"
        pair.wait_idle()
        yield pair


def test_the_secret_appears_nowhere(secret_pair, token):
    secret = token.read_text().strip()
    serve, prefill = secret_pair.serve, secret_pair.prefill
    shown = [serve.log(), prefill.log()]
    for url in (serve.url, prefill.url):
        for path in ("/health", "/stats", "/v1/identity", "/v1/models", "/nothing"):
            for headers in ({}, serve.headers, {"Authorization": "Bearer wrong"}):
                reply = httpx.get(url + path, headers=headers)
                shown.append(reply.text + str(reply.headers))
    assert all(secret not in text for text in shown)
    for role in (serve, prefill):
        assert not any(secret in arg for arg in role.args)


@pytest.mark.parametrize("headers", [{"Origin": "https://example.com"}, {"Host": "example.com"}, {"Origin": "null"}],
                         ids=["origin", "host", "null-origin"])
def test_a_foreign_web_page_gets_nothing(headers, secret_pair):
    for role in (secret_pair.serve, secret_pair.prefill):
        for path in ("/v1/identity", "/health", "/v1/models"):
            reply = httpx.get(role.url + path, headers={**headers, **secret_pair.serve.headers})
            assert reply.status_code in (400, 403), path
            assert "Access-Control-Allow-Origin" not in reply.headers


def test_the_prefill_engine_asks_everybody_for_the_token(secret_pair):
    body = {"transfer": "0" * 32, "ids": [1, 2, 3], "resume_from": 0}
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic abc"}):
        reply = httpx.post(secret_pair.prefill.url + "/v1/prefill", json=body, headers=headers)
        assert reply.status_code == 401
    assert secret_pair.prefill.running() == 0


NAMES = ["../" * 8 + "etc/passwd", "/etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "a" * 300, "..%2f..%2fetc%2fpasswd", "x%00y"]


@pytest.mark.parametrize("name", NAMES, ids=["up", "absolute", "encoded", "long", "encoded-slash", "nul"])
def test_no_path_of_a_request_is_a_path_of_a_file(name, secret_pair):
    for role in (secret_pair.serve, secret_pair.prefill):
        for prefix in ("/", "/v1/", "/v1/projection/"):
            reply = httpx.request("GET", httpx.URL(role.url).copy_with(raw_path=(prefix + name).encode()), headers=secret_pair.serve.headers)
            assert reply.status_code in (400, 404), reply.text
            assert "root:" not in reply.text
        assert role.alive()


def test_off_loopback_needs_a_token_and_the_users_word(token):
    for args, tok in ((("--bind", "0.0.0.0"), None), (("--bind", "0.0.0.0"), token), (("--bind", "0.0.0.0", "--insecure-lan"), None)):
        serve = Serve(*args, token=tok)
        assert serve.process.wait(60) == 2, f"{args} without a refusal"
        assert serve.process.stdout.read() == ""
        assert "--insecure-lan" in serve.log() or "token" in serve.log()
        serve.stop()
