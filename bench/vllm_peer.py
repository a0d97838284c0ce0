#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU engine: a process in the Python environment of scripts/venv vllm, and the class that drives it from another.

One JSON object a line on stdin, one answer a line on stdout:

    {"op": "load", "gguf": FILE, "folder": DIR, "context": N, "streams": N, "batch_tokens": N, "eager": BOOL}
    {"op": "generate", "prompts": [[ids], …], "tokens": N}

The model is the GGUF file's, written to DIR in bf16 unless it is there. The engine runs in the process itself, so that nothing
but its own work is timed, and it idles between requests.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from digest import sha256_file

KV_GIB = 2
THREADS_SPIN_S = 0.2  # Intel's OpenMP, by default, after each piece of work
LOG_LINES = 40


def environment(threads, cache):
    """What vLLM reads when it starts. Intel's OpenMP has to be loaded before anything else: without it, vLLM's binding leaves
    all threads on one core."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return {
        "LD_PRELOAD": str(pathlib.Path(sys.prefix) / "lib" / "libiomp5.so"),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_KVCACHE_SPACE": str(KV_GIB),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CACHE_ROOT": str(cache),
        "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(cache) / "inductor"),
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


class VllmPeer:
    """A process with one engine. `cache` is the folder for the model in bf16 and for what vLLM compiles."""

    def __init__(self, python, gguf, cache, threads=2, **options):
        digest = sha256_file(gguf)
        cache = pathlib.Path(cache)
        self.options = {"threads": threads, "context": 8192, "streams": 4, "batch_tokens": 2048, "eager": False, **options}
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([python, __file__, str(threads), cache / "vllm"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._log, text=True)
        folder = cache / "models" / f"hf-bf16-{digest[:12]}"
        self.version = self._ask(op="load", gguf=str(gguf), folder=str(folder), **self.options)["version"]

    def _ask(self, **request):
        print(json.dumps(request), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError("vLLM ended; the end of its log:\n" + "".join(self._log.readlines()[-LOG_LINES:]))
        return json.loads(line)

    def generate(self, prompts, tokens):
        """Seconds to the prompts' first tokens, seconds of the rest, the ids of each answer and the tokens of each prompt."""
        got = self._ask(op="generate", prompts=prompts, tokens=tokens)
        time.sleep(2 * THREADS_SPIN_S)
        return got["read_s"], got["write_s"], got["ids"], got["prompt_tokens"]

    def close(self):
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Engine:
    """The engine in this process."""

    def __init__(self, request):
        import hf_folder
        import vllm

        hf_folder.write(request["gguf"], request["folder"])
        self.version = vllm.__version__
        self._sampling = vllm.SamplingParams
        self._engine = vllm.LLM(
            model=request["folder"], dtype="bfloat16", skip_tokenizer_init=True, seed=0, max_model_len=request["context"],
            max_num_seqs=request["streams"], max_num_batched_tokens=request["batch_tokens"], enable_prefix_caching=False,
            enforce_eager=request["eager"]).llm_engine
        self._requests = 0

    def generate(self, prompts, tokens):
        """Greedy, all prompts at once; end tokens do not end it."""
        params = self._sampling(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        start = read = time.perf_counter()
        ids, prompt_tokens = {}, {}
        for prompt in prompts:
            self._requests += 1
            name = str(self._requests)
            self._engine.add_request(name, {"prompt_token_ids": prompt}, params)
            ids[name] = []
        while self._engine.has_unfinished_requests():
            reading = not all(ids.values())
            for out in self._engine.step():
                ids[out.request_id] = list(out.outputs[0].token_ids)
                prompt_tokens[out.request_id] = len(out.prompt_token_ids)
            if reading:
                read = time.perf_counter()
        return {"read_s": read - start, "write_s": time.perf_counter() - read, "ids": list(ids.values()),
                "prompt_tokens": [prompt_tokens[name] for name in ids]}


def serve():
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints is no answer
    engine = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "load":
            engine = Engine(request)
            reply = {"version": engine.version}
        else:
            reply = engine.generate(request["prompts"], request["tokens"])
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    wanted = environment(int(sys.argv[1]), sys.argv[2])
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    serve()
