# SPDX-License-Identifier: Apache-2.0
"""A prefill engine in Python that does what a script tells it: the HTTP side of docs/formats/prefill-api.md and the sender's
side of docs/formats/handoff.md, sharing no code with the program. The planes are real: a real prefill engine recorded them.
"""
import contextlib
import hashlib
import http.server
import json
import socket
import struct
import threading

import handoff_wire as wire
from handoff_wire import ABORT, ROWS, SEAL

REPLY_S = 20  # longest wait for a frame of the receiver


def ids_digest(ids):
    return hashlib.sha256(struct.pack(f"<{len(ids)}i", *ids)).hexdigest()


class Recordings:
    """What the real engine sent, by prompt."""

    def __init__(self, folder):
        self._paths = {}
        for path in folder.glob("*.ish"):
            with open(path, "rb") as file:
                header = file.read(wire.HEADER.size)
                opened = json.loads(file.read(wire.HEADER.unpack(header)[4]))
            self._paths[opened["ids"]] = path

    def frames(self, ids):
        return wire.parse(self._paths[ids_digest(ids)].read_bytes())


def renumbered(frames):
    """The same frames in sequence."""
    return [f.changed(sequence=i) for i, f in enumerate(frames)]


def seal(frames, plane_bytes, /, **claims):
    """The SEAL that fits these frames, but for the claims given."""
    for f in frames:
        f.head()
    claims = {"last": frames[-1].json["last"], "frames": len(frames), "bytes": plane_bytes, "digest": wire.seal_digest(frames),
              **claims}
    return wire.Frame(SEAL, claims, sequence=len(frames))


class Connection:
    """One connection to the handoff port. A receiver that has closed is not an error: what it said before is."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=REPLY_S)

    def send(self, *frames):
        with contextlib.suppress(ConnectionError):
            for frame in frames:
                data = frame if isinstance(frame, bytes) else frame.head()
                self.sock.sendall(data)
                if not isinstance(frame, bytes):
                    self.sock.sendall(frame.payload)

    def send_acknowledged(self, frames):
        """Each after the ACK of the one before, so that nothing is unread when the connection is cut."""
        for frame in frames:
            self.send(frame)
            answer = self.read()
            assert answer is not None and answer.type == wire.ACK, answer

    def read(self):
        """The receiver's next frame; None when it has closed."""
        try:
            return wire.read_frame(self.sock)
        except (ConnectionError, TimeoutError):
            return None

    def last_word(self):
        """The receiver's last frame: an ABORT, the ACK of a SEAL, or whatever came before it closed."""
        last = None
        while (frame := self.read()) is not None:
            last = frame
            if frame.type == ABORT or frame.json.get("sealed"):
                break
        return last

    def closed_by_peer(self):
        return self.read() is None

    def close(self):
        self.sock.close()


class Call:
    """One POST /v1/prefill, and what an honest engine would send for it."""

    def __init__(self, engine, body):
        self.engine, self.body = engine, body
        self.tokens, self.first = len(body["ids"]), body["resume_from"]
        self.heard = None  # the receiver's last frame
        self.open, self.rows = self._honest(engine.recordings.frames(body["ids"]))

    def _honest(self, recorded):
        opened = recorded[0]
        rows = [f for f in recorded if f.type == ROWS and f.json["first"] >= self.first]
        skipped = sum(len(f.payload) for f in recorded if f.type == ROWS and f.json["first"] < self.first)
        assert skipped == 0, "recordings begin at the first row"
        return opened.changed(json={**opened.json, "transfer": self.body["transfer"]}), rows

    @property
    def plane_bytes(self):
        return self.open.json["plane_bytes"]

    def frames(self):
        """OPEN, ROWS and SEAL."""
        frames = renumbered([self.open, *self.rows])
        return [*frames, seal(frames, self.plane_bytes)]

    def connect(self, secret=None, transfer=None):
        connection = Connection(self.engine.handoff_port)
        wire.offer_handshake(connection.sock, secret or self.engine.secret, transfer or self.body["transfer"])
        return connection

    def send(self, frames):
        """Sends frames over a new connection, whatever the receiver says meanwhile, and hears its last word."""
        connection = self.connect()
        with contextlib.closing(connection):
            connection.send(*frames)
            self.heard = connection.last_word()

    def report(self, **fields):
        shipped = self.tokens - 1 - self.first
        return 200, {"computed_tokens": shipped, "reused_tokens": 0, "shipped_tokens": shipped, "engine_s": 0.01, **fields}


def error(status, code, message):
    return status, {"error": {"code": code, "message": message}}


def honest(call):
    call.send(call.frames())
    return call.report()


class ScriptedEngine:
    """Answers on `port`; `script(call)` plays the engine: its result is (status, JSON), or None to wait until the decoder
    closes. A script that fails is shown by finish()."""

    def __init__(self, port, identity, secret, handoff_port, recordings):
        self.identity, self.secret, self.handoff_port, self.recordings = identity, secret, handoff_port, recordings
        self.script, self.calls, self.problems = honest, [], []
        self.keep = []     # connections that outlive their script
        self._running = 0  # scripts
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.reply(200, engine.identity)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                result = engine.run(body)
                if result is None:
                    self.wait_for_close()
                else:
                    self.reply(*result)

            def wait_for_close(self):
                with contextlib.suppress(OSError):
                    while self.connection.recv(4096):
                        pass
                self.close_connection = True

            def reply(self, status, body):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def run(self, body):
        self._running += 1
        try:
            call = Call(self, body)
            self.calls.append(call)
            return self.script(call)
        except Exception as e:  # shown by finish(): this is a thread of the server
            self.problems.append(e)
            return error(500, "internal", f"script: {e!r}")
        finally:
            self._running -= 1

    def idle(self):
        return self._running == 0

    def play(self, script):
        self.script, self.calls, self.problems = script, [], []

    def finish(self):
        """The only call since play()."""
        if self.problems:
            raise self.problems[0]
        assert len(self.calls) == 1, f"{len(self.calls)} prefill calls"
        return self.calls[0]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
