#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The measuring half of scripts/quickstart: one long question, answered by the decode engine alone and then through the bridge.

Both times the caches are empty and the same prompt bytes are sent. Nothing slows "alone" down: it is `isthmus serve` with both
cores to itself. Standard library only.
"""
import argparse
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

QUESTION = "In two or three sentences: what is the text above about, and what does it ask of those who redistribute the work?"
MIN_TOKENS = 6000
MAX_TOKENS = 7200  # leaves room for the answer in an 8K context
ANSWER_TOKENS = 80
READY_LIMIT_S = 180


def repository_text(root: Path) -> str:
    """The licence and our own documentation: real prose that every clone has."""
    files = [root / "LICENSE", root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return "\n\n".join(f.read_text(encoding="utf-8") for f in files if f.exists())


def count_tokens(binary: str, model: str, text: str) -> int:
    out = subprocess.run([binary, "tokenize", "--json", "--model", model], input=text, text=True, check=True,
                         stdout=subprocess.PIPE).stdout
    return json.loads(out)["tokens"]


def long_text(binary: str, model: str, root: Path) -> str:
    text = repository_text(root)
    size = len(text)
    for _ in range(6):  # prose and tables have different numbers of characters a token
        tokens = count_tokens(binary, model, text[:size])
        if MIN_TOKENS <= tokens <= MAX_TOKENS:
            return text[:size]
        size = min(len(text), size * (MAX_TOKENS - 100) // max(tokens, 1))
    sys.exit(f"quickstart: the text has {tokens} tokens, expected {MIN_TOKENS} to {MAX_TOKENS}")


class Server:
    """A role as a child process; ready once it has printed its JSON line."""

    def __init__(self, argv: list[str]):
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        self.ready = self._wait_ready(argv)

    def _wait_ready(self, argv: list[str]) -> dict:
        if not select.select([self.process.stdout], [], [], READY_LIMIT_S)[0]:
            self.stop()
            sys.exit(f"quickstart: no sign of life from {argv[1]} in {READY_LIMIT_S} s")
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"quickstart: {argv[1]} ended while starting; its log is above")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def ask(binary: str, url: str, document: str) -> dict:
    out = subprocess.run([binary, "ask", QUESTION, "--file", document, "--url", url, "--max-tokens", str(ANSWER_TOKENS), "--json"],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)


def say(text: str) -> None:
    print(text, flush=True)


def summary(alone: dict, bridged: dict) -> dict:
    usage, verdict = bridged["usage"], bridged["verdict"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    decode_s = bridged["total_s"] - bridged["ttft_s"]
    return {
        "verdict": verdict.get("verdict", "skipped" if verdict.get("skipped") else "declined"),
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": cached,
        "computed_by_decoder": usage["prompt_tokens"] - cached,
        "computed_by_prefill": verdict.get("prefilled", 0),
        "handoff_bytes": round(verdict.get("pulled_gb", 0) * 1e9),
        "ttft_s": round(bridged["ttft_s"], 3),
        "alone_ttft_s": round(alone["ttft_s"], 3),
        "prefill_s": verdict.get("t_engine", 0),
        "handoff_close_s": round(max(0.0, verdict.get("t_bridge_total", 0) - verdict.get("t_engine", 0)), 3),
        "decode_tok_s": round((usage["completion_tokens"] - 1) / decode_s, 1) if decode_s > 0 else 0,
        "same_answer": bridged["text"] == alone["text"],
    }


def words(s: dict) -> str:
    if s["verdict"] != "complete":
        return f"The bridge was not complete ({s['verdict']}); the answer came from the decode engine."
    return (f"The prefill engine read {s['computed_by_prefill']} of {s['prompt_tokens']} prompt tokens and pushed "
            f"{s['handoff_bytes'] / 1e6:.0f} MB of finished cache while reading; the decode engine computed "
            f"{s['computed_by_decoder']}. First token after {s['ttft_s']:.2f} s, alone {s['alone_ttft_s']:.2f} s.\n"
            "Both engines here are ours and share this machine's cores, so about 1x is expected: this shows correctness, overlap and "
            "overhead. The gain comes from a prefill engine that reads faster than the decode engine.")


def keep_running(pair: Server) -> None:
    try:
        pair.process.wait()
    except KeyboardInterrupt:
        pass


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory(prefix="isthmus-quickstart-") as work:
        document = os.path.join(work, "document.txt")
        Path(document).write_text(long_text(args.binary, args.model, root), encoding="utf-8")
        common = ["--model", args.model, "--log", "warn"]

        say("1/2  the decode engine alone ...")
        with Server([args.binary, "serve", *common, "--port", "0"]) as serve:
            alone = ask(args.binary, f"http://127.0.0.1:{serve.ready['port']}", document)
        say(f"     first token after {alone['ttft_s']:.2f} s")

        say("2/2  prefill engine and decode engine, bridged ...")
        with Server([args.binary, "up", *common, "--port", "0", "--prefill-port", "0", "--handoff-port", "0"]) as pair:
            bridged = ask(args.binary, pair.ready["url"], document)
            say(f"     first token after {bridged['ttft_s']:.2f} s\n\n{bridged['text'].strip()}\n")
            result = summary(alone, bridged)
            say(words(result))
            if args.keep:
                say(f"\nStill running (end it with Ctrl-C); try:\n  curl {pair.ready['url']}/v1/chat/completions "
                    "-H 'Content-Type: application/json' "
                    "-d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello!\"}], \"max_tokens\": 40}'")
            say(json.dumps(result))
            if args.keep:
                keep_running(pair)
    return 0 if result["verdict"] == "complete" and result["same_answer"] else 1


if __name__ == "__main__":
    sys.exit(main())
