# SPDX-License-Identifier: Apache-2.0
"""The engines that bench/peers.py measures. Each has a version, options, first_choices() and measure(), and is closed."""
import dataclasses
import json
import pathlib
import subprocess
import sys
import typing

import llama_peer
import vllm_peer
from serve_process import VOCABULARY, ServeProcess, prompt

CONTEXT = 8192


@dataclasses.dataclass
class Setting:
    """What all arms are made from; `model` is the file of the moment."""
    binary: str
    vllm_python: str
    cache: pathlib.Path
    threads: int
    model: pathlib.Path = None


@dataclasses.dataclass
class Arm:
    """An engine under a name; `cases`: those it runs, all when None. Another arm of ours is named "ours-" and something, and made
    by a function that hands Ours the options of `isthmus serve`."""
    name: str
    make: typing.Callable
    cases: tuple = None


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"peers: {what}: expected {wanted}, got {got}")


class Ours:
    """`isthmus serve` with options of its own, timed by `isthmus bench`."""

    def __init__(self, setting, *serve_options):
        self._binary = setting.binary
        self.options = {"threads": setting.threads, "over": "HTTP", "serve": list(serve_options)}
        self.version = subprocess.run([self._binary, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self._serve = ServeProcess(setting.binary, setting.model, setting.threads, *serve_options)

    def first_choices(self, prompts, _text):
        """The text of the likeliest next token of each prompt."""
        return [self._serve.complete(ids, 1) for ids in prompts]

    def measure(self, tokens, answer, streams):
        args = ["--prompt-tokens", tokens, "--max-tokens", answer, "--streams", streams, "--repeat", 1, "--vocabulary", VOCABULARY]
        done = subprocess.run([self._binary, "bench", "--url", self._serve.url, "--json", *map(str, args)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"peers: isthmus bench: {done.stderr}")
        case = json.loads(done.stdout)["cases"][0]
        for s in case["samples"]:
            expect("ours: prompt tokens computed", s["computed_tokens"], tokens)
            expect("ours: tokens of the answer", s["completion_tokens"], answer)
        return {"prefill": case["prefill_tok_s"], "decode": case["total_decode_tok_s"]}

    def close(self):
        self._serve.close()


class Llama:
    """llama.cpp in this process; one context per number of streams."""

    UBATCHES = (512, 1024, 2048)

    def __init__(self, setting):
        model, threads = setting.model, setting.threads
        self.version = llama_peer.VERSION
        self._ubatch = self._fastest_ubatch(model, threads)
        self._one = llama_peer.LlamaModel(model, threads, CONTEXT, 1, self._ubatch)
        self._four = llama_peer.LlamaModel(model, threads, 512, 4, 512)
        self.options = {**self._one.options, "build": llama_peer.build()}
        for llama in (self._one, self._four):
            llama.generate([prompt(32)], 4)

    @staticmethod
    def _fastest_ubatch(model, threads):
        def seconds(ubatch):
            with llama_peer.LlamaModel(model, threads, CONTEXT, 1, ubatch) as llama:
                llama.generate([prompt(32)], 2)
                return min(llama.generate([prompt(2048)], 1)[0] for _ in range(2))
        return min(Llama.UBATCHES, key=seconds)

    def first_choices(self, prompts, text):
        return [text(self._one.generate([ids], 1)[2][0]) for ids in prompts]

    def measure(self, tokens, answer, streams):
        llama = self._one if streams == 1 else self._four
        read_s, write_s, out = llama.generate([prompt(tokens) for _ in range(streams)], answer)
        for stream in range(streams):
            expect("llama: tokens in its cache", llama.tokens_held(stream), tokens + answer - 1)
            expect("llama: tokens of the answer", len(out[stream]), answer)
        return {"prefill": streams * tokens / read_s, "decode": streams * (answer - 1) / write_s}

    def close(self):
        self._one.close()
        self._four.close()


class Vllm:
    """vLLM in a process of its own, on the file's values in bf16. Compiled or not and how many tokens at once: what is fastest."""

    TRIED = tuple({"batch_tokens": n, "eager": eager} for n, eager in ((2048, False), (4096, False), (8192, False), (2048, True)))
    fastest = None  # the same for every file: vLLM sees only bf16

    def __init__(self, setting):
        args = (setting.vllm_python, setting.model, setting.cache, setting.threads)
        if Vllm.fastest is None:
            Vllm.fastest = min(Vllm.TRIED, key=lambda options: self._seconds(args, options))
        self._vllm = vllm_peer.VllmPeer(*args, **Vllm.fastest)
        self.version = self._vllm.version
        self.options = {**self._vllm.options, "dtype": "bfloat16", "kv_gib": vllm_peer.KV_GIB, "prefix_caching": False}
        for tokens, streams in ((32, 1), (32, 4), (1024, 1)):
            self._vllm.generate([prompt(tokens)] * streams, 4)

    @staticmethod
    def _seconds(args, options):
        with vllm_peer.VllmPeer(*args, **options) as vllm:
            vllm.generate([prompt(32)], 2)
            seconds = min(sum(vllm.generate([prompt(4096)], 17)[:2]) for _ in range(2))
        print(f"vllm {options}: {seconds:.2f} s", file=sys.stderr)
        return seconds

    def first_choices(self, prompts, text):
        return [text(ids) for ids in self._vllm.generate(prompts, 1)[2]]

    def measure(self, tokens, answer, streams):
        read_s, write_s, out, read = self._vllm.generate([prompt(tokens) for _ in range(streams)], answer)
        expect("vllm: tokens of the prompts", read, [tokens] * streams)
        expect("vllm: tokens of the answers", [len(ids) for ids in out], [answer] * streams)
        return {"prefill": streams * tokens / read_s, "decode": streams * (answer - 1) / write_s}

    def close(self):
        self._vllm.close()


ARMS = (Arm("ours", Ours), Arm("llama", Llama), Arm("vllm", Vllm),
        Arm("ours-int8", lambda s: Ours(s, "--prefill-weights", "int8"), ("prefill_1024", "prefill_4096", "prefill_7680")))
