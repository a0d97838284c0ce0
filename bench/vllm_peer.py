#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vLLM's CPU engine as a process of its own (the Python environment of scripts/venv vllm): token ids in; ids and times out.

One JSON object a line on stdin, one answer a line on stdout; `VllmPeer` in bench/peer_arms.py is the other end.

    {"op": "load", "gguf": FILE, "folder": DIR, "threads": N, "context": N, "streams": N, "batch_tokens": N, "eager": BOOL}
    {"op": "generate", "prompts": [[ids], …], "tokens": N}

The model is the GGUF file's, written to DIR in bf16 unless it is there. The engine runs in this very process, so that nothing
but its own work is timed, and does nothing between requests.
"""
import json
import os
import pathlib
import sys
import time


def environment(threads):
    """What vLLM reads when it starts. It wants Intel's OpenMP loaded before anything else: with another one it would bind all
    its threads to one core."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    return {
        "LD_PRELOAD": str(pathlib.Path(sys.prefix) / "lib" / "libiomp5.so"),
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_KVCACHE_SPACE": "2",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


class Engine:
    def __init__(self, request):
        import hf_folder
        import vllm

        hf_folder.write(request["gguf"], request["folder"])
        self.version = vllm.__version__
        self._sampling = vllm.SamplingParams
        self._llm = vllm.LLM(
            model=request["folder"], dtype="bfloat16", skip_tokenizer_init=True, seed=0, max_model_len=request["context"],
            max_num_seqs=request["streams"], max_num_batched_tokens=request["batch_tokens"], enable_prefix_caching=False,
            enforce_eager=request["eager"]).llm_engine
        self._requests = 0

    def generate(self, prompts, tokens):
        """Greedy, all prompts at once; end tokens do not end it. Seconds until each has its first token, seconds of the rest."""
        params = self._sampling(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)
        start = time.perf_counter()
        ids = {}
        for prompt in prompts:
            self._requests += 1
            self._llm.add_request(str(self._requests), {"prompt_token_ids": prompt}, params)
            ids[str(self._requests)] = []
        read = start
        prompt_tokens = {}
        while self._llm.has_unfinished_requests():
            waited = not all(ids.values())
            for out in self._llm.step():
                ids[out.request_id] = list(out.outputs[0].token_ids)
                prompt_tokens[out.request_id] = len(out.prompt_token_ids)
            if waited:
                read = time.perf_counter()
        return {"read_s": read - start, "write_s": time.perf_counter() - read, "ids": list(ids.values()),
                "prompt_tokens": [prompt_tokens[r] for r in ids]}


def answer(engines, request):
    if request["op"] == "load":
        engines[:] = [Engine(request)]
        return {"version": engines[0].version}
    return engines[0].generate(request["prompts"], request["tokens"])


def main():
    threads = int(sys.argv[1])
    if "libiomp5" not in os.environ.get("LD_PRELOAD", ""):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **environment(threads)})
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM prints goes to stderr
    engines = []
    for line in sys.stdin:
        print(json.dumps(answer(engines, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
