# SPDX-License-Identifier: Apache-2.0
"""Drives the real binary: starts and stops its roles, asks them, reads their counters.

ISTHMUS_BINARY and ISTHMUS_MODEL name the program and the model (scripts/test sets both). Every role runs on ports of its
own and writes its log to a file, which conftest.py shows when a test fails.
"""
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ISTHMUS_BINARY", str(ROOT / "build/release/isthmus"))
MODEL = os.environ.get("ISTHMUS_MODEL", str(pathlib.Path.home() / ".cache/isthmus/models/smollm2-135m-instruct-q4_1.gguf"))

# SmolLM2-135M in the native layout: a K and a V plane for each of 30 layers, rows of 3 heads x 64 bf16 values.
BLOCK = 256
ROW_BYTES = 2 * 30 * 3 * 64 * 2
CONTEXT = 8192

# Of several processes on the same cores, none may spin away the others' time (docs/performance.md).
SHARED_CORES = {"GOMP_SPINCOUNT": "10000"}

START_S = 120
ANSWER_S = 300
SETTLE_S = 60

LIVE = []  # roles that run, for the logs of a failing test
CLIENT = httpx.Client(verify=False, timeout=ANSWER_S, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)


def prompt(tokens, seed):
    """`tokens` ids of ordinary words; prompts of one seed are prefixes of each other, of two seeds differ in the first id."""
    draw = random.Random(seed)
    return [1000 + seed] + [draw.randrange(1000, 40000) for _ in range(tokens - 1)]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(condition, what, timeout=SETTLE_S):
    """The first true value of condition(); fails naming `what` otherwise."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {timeout} s in vain for {what}"
        time.sleep(0.02)


@dataclasses.dataclass
class Reply:
    status: int
    body: dict
    verdict: dict

    @property
    def text(self):
        return self.body["choices"][0]["text"]

    @property
    def usage(self):
        return self.body["usage"]

    @property
    def debug(self):
        """Counters and the digest of the first logits, as the header X-Isthmus-Debug asks for them."""
        return self.body["usage"]["isthmus"]

    @property
    def answer(self):
        """What must be equal however the prompt was read: digest of the first logits, greedy tokens, their log-probabilities."""
        logprobs = self.body["choices"][0]["logprobs"]
        return self.debug["first_logits_xxh3"], self.text, logprobs["tokens"], logprobs["token_logprobs"]


def outcome(verdict):
    """A verdict in one string: "complete", "salvage 512/900", "declined: why" or "skipped: why"."""
    if verdict["skipped"]:
        return "skipped: " + verdict["why"]
    if "bridge_error" in verdict:
        return "declined: " + verdict["bridge_error"]
    return verdict["verdict"]


class Role:
    """One child process of the binary; `under`: a command that starts it and becomes it."""

    def __init__(self, command, *args, env=None, cores=None, under=()):
        self.command = command
        self.args = [str(a) for a in args]
        self.log_file = tempfile.NamedTemporaryFile(prefix=f"isthmus-{command}-", suffix=".log", delete=False)
        env = {**os.environ, **(env or {})}
        self.process = subprocess.Popen([*under, BINARY, command, *self.args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.log_file, env=env, text=True,
                                        preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))
        LIVE.append(self)

    def wait_ready(self):
        """The ready line."""
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line, f"{self.command} ended while starting:\n{self.log()}"
        self.ready = json.loads(line)
        assert self.ready["ready"] is True
        return self.ready

    def __enter__(self):
        self.wait_ready()
        return self

    def __exit__(self, *_):
        if self.alive():
            self.stop()

    def log(self):
        return pathlib.Path(self.log_file.name).read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        self.process.kill()
        self._gone()

    def stop(self):
        """Ends the process as an operator would, and returns its exit status."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
                self.signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.command} did not end within 30 s of SIGTERM") from None
        self._gone()
        return self.process.returncode

    def _gone(self):
        self.process.wait(30)
        self.process.stdout.close()
        self.log_file.close()
        if self in LIVE:
            LIVE.remove(self)
            os.unlink(self.log_file.name)

    def open_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rss_bytes(self, field="VmRSS"):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(field + r":\s+(\d+) kB", status)[1]) * 1024

    def peak_rss_bytes(self):
        return self.rss_bytes("VmHWM")


class Serve(Role):
    def __init__(self, *args, port=0, model=MODEL, token=None, env=None, cores=None, under=()):
        super().__init__("serve", "--model", model, "--port", port, *token_args(token), *args,
                         env={**SHARED_CORES, **(env or {})}, cores=cores, under=under)
        self.headers = token_header(token)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ready['port']}"

    def get(self, path):
        reply = CLIENT.get(self.url + path, headers=self.headers)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def stats(self):
        return self.get("/stats")

    def body(self, ids, max_tokens=8, **extra):
        return {"prompt": ids, "max_tokens": max_tokens, "temperature": 0, "logprobs": 0, **extra}

    def all_headers(self, headers=None):
        return {"X-Isthmus-Debug": "1", **self.headers, **(headers or {})}

    def complete(self, ids, max_tokens=8, headers=None, **extra):
        """A whole reply, 200 or not."""
        reply = CLIENT.post(self.url + "/v1/completions", json=self.body(ids, max_tokens, **extra), headers=self.all_headers(headers))
        verdict = reply.headers.get("X-PD-Bridge")
        return Reply(reply.status_code, reply.json(), json.loads(verdict) if verdict else {})

    def answer(self, ids, max_tokens=8, headers=None, **extra):
        """A reply that must be 200."""
        reply = self.complete(ids, max_tokens, headers, **extra)
        assert reply.status == 200, reply.body
        return reply

    @contextlib.contextmanager
    def stream(self, ids, max_tokens=8, headers=None, **extra):
        """The head of a streamed reply; read_events() reads the rest."""
        extra.setdefault("stream_options", {"include_usage": True})
        body = self.body(ids, max_tokens, stream=True, **extra)
        with CLIENT.stream("POST", self.url + "/v1/completions", json=body, headers=self.all_headers(headers)) as reply:
            yield reply

    def idle(self):
        s = self.stats()
        return s["engine"]["active"] == 0 and s["engine"]["waiting"] == 0 and s.get("handoff", {}).get("live", 0) == 0

    def wait_idle(self):
        wait_until(self.idle, "no request and no transfer in serve")

    def wait_written(self):
        wait_until(lambda: self.stats()["store"]["queued_bytes"] == 0, "an empty write queue")

    def landed_blocks(self):
        return self.stats()["store"]["puts"]


class Prefill(Role):
    def __init__(self, decoder_url, *args, port=0, model=MODEL, token=None, cores=None):
        super().__init__("prefill", "--model", model, "--port", port, "--decoder", decoder_url, *token_args(token), *args,
                         env=SHARED_CORES, cores=cores)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.ready['port']}"

    def running(self):
        reply = CLIENT.get(self.url + "/health")
        assert reply.status_code == 200
        return reply.json()["running"]

    def wait_idle(self):
        wait_until(lambda: self.running() == 0, "no prefill running")


def token_args(token):
    return ["--auth-token-file", token] if token else []


def token_header(token):
    return {"Authorization": "Bearer " + pathlib.Path(token).read_text().strip()} if token else {}


def events(reply):
    """Of a streamed reply: ("comment", text) and ("data", object), the last being ("data", "[DONE]")."""
    for line in reply.iter_lines():
        if line.startswith(":"):
            yield "comment", line[1:].strip()
        elif line.startswith("data: "):
            data = line[len("data: "):]
            yield "data", data if data == "[DONE]" else json.loads(data)
        else:
            assert line == "", f"neither comment, data nor end of event: {line!r}"


def text_of(event_list):
    return "".join(e["choices"][0]["text"] for kind, e in event_list if kind == "data" and e != "[DONE]" and e["choices"])


class Pair:
    """A decode server and its prefill engine, each on its `cores` (else on all). Ports stay the same over restarts, as each
    names the other's."""

    def __init__(self, serve_args=(), prefill_args=(), serve_model=MODEL, token=None, serve_env=None, serve_cores=None,
                 prefill_cores=None, serve_under=()):
        self.serve_args, self.prefill_args = list(serve_args), list(prefill_args)
        self.serve_model, self.token, self.serve_env = serve_model, token, serve_env
        self.serve_cores, self.prefill_cores, self.serve_under = serve_cores, prefill_cores, serve_under
        self.port, self.handoff_port, self.prefill_port = free_port(), free_port(), free_port()
        self.serve = self.prefill = None

    def __enter__(self):
        self.serve, self.prefill = self._serve(), self._prefill()
        self.serve.wait_ready()
        self.prefill.wait_ready()
        return self

    def __exit__(self, *_):
        for role in (self.serve, self.prefill):
            if role.alive():
                role.stop()

    def _serve(self):
        return Serve("--prefill", f"http://127.0.0.1:{self.prefill_port}", "--handoff-port", self.handoff_port,
                     *self.serve_args, port=self.port, model=self.serve_model, token=self.token, env=self.serve_env,
                     cores=self.serve_cores, under=self.serve_under)

    def _prefill(self, decoder_url=None, token=None):
        return Prefill(decoder_url or f"http://127.0.0.1:{self.port}", *self.prefill_args, port=self.prefill_port,
                       token=token or self.token, cores=self.prefill_cores)

    def restart_serve(self, kill=False):
        self.serve.kill() if kill else self.serve.stop()
        self.serve = self._serve()
        self.serve.wait_ready()

    def restart_prefill(self, decoder_url=None, token=None):
        if self.prefill.alive():
            self.prefill.stop()
        self.prefill = self._prefill(decoder_url, token)
        self.prefill.wait_ready()

    def wait_idle(self):
        self.serve.wait_idle()
        if self.prefill.alive():
            self.prefill.wait_idle()


class InBackground:
    """A call on a thread of its own; result() joins it and hands on what it returned or raised."""

    def __init__(self, call, *args, **kwargs):
        self._outcome = None
        self._thread = threading.Thread(target=self._run, args=(call, args, kwargs), daemon=True)
        self._thread.start()

    def _run(self, call, args, kwargs):
        try:
            self._outcome = call(*args, **kwargs), None
        except BaseException as e:  # noqa: B036 - handed on by result()
            self._outcome = None, e

    def done(self):
        return not self._thread.is_alive()

    def result(self, timeout=ANSWER_S):
        self._thread.join(timeout)
        assert self._outcome is not None, "no answer in time"
        value, error = self._outcome
        if error is not None:
            raise error
        return value


class Baseline:
    """A decode server on its own. Each prompt is asked once, so that all of it is computed there."""

    def __init__(self, serve):
        self._serve = serve
        self._known = {}

    def answer(self, ids, max_tokens=8):
        key = hashlib.sha256(json.dumps([ids, max_tokens]).encode()).hexdigest()
        if key not in self._known:
            reply = self._serve.answer(ids, max_tokens)
            assert outcome(reply.verdict) == "skipped: no prefill engine configured"
            self._known[key] = reply.answer
        return self._known[key]


def disconnecting_post(serve, ids, **extra):
    """A request on a plain socket, so that the caller can drop the connection whenever it likes."""
    body = json.dumps(serve.body(ids, **extra)).encode()
    head = [f"POST /v1/completions HTTP/1.1", f"Host: 127.0.0.1:{serve.ready['port']}", "Content-Type: application/json",
            f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in serve.headers.items())]
    s = socket.create_connection(("127.0.0.1", serve.ready["port"]))
    s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return s
