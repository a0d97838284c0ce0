#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How close our logits are to llama.cpp's on the same GGUF file, over teacher-forced English text.

    scripts/parity-llama          # bench/results/parity-llama-smollm2.json

Of each document the first tokens are the prompt; compared is what each engine says after every token that follows. llama.cpp
rounds activations to 8 bits before it multiplies them with quantized weights. What that does is seen with two more arms:
"exact", llama.cpp on the same values written out as F32 with F32 attention, which rounds nothing; and llama.cpp on the file
itself with F32 attention, which is as far from its usual run as rounding alone can bring it. And both read the same values as
an F16 file, with which llama.cpp does not round activations to 8 bits.
"""
import argparse
import datetime
import hashlib
import importlib.metadata
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import llama_peer
import numpy as np
from digest import sha256_file
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROMPT_TOKENS = 500
COMPARED_TOKENS = 600
CONTEXT = 1152
OURS = ("ours_from_llama", "ours_from_llama_f16", "ours_from_exact")


def documents():
    """Name -> text: English prose whose wording is fixed by the pins of scripts/pins/llama.txt (and our licence)."""
    def readme(package):
        return importlib.metadata.metadata(package).get_payload()

    return {
        "Apache License 2.0": (ROOT / "LICENSE").read_text(),
        "numpy.fft, documentation": np.fft.__doc__,
        "numpy.polyfit, documentation": np.polyfit.__doc__,
        "diskcache, read-me": readme("diskcache"),
        "llama-cpp-python, read-me": readme("llama-cpp-python"),
        "httpx, read-me": readme("httpx"),
        "pytest, read-me": readme("pytest"),
    }


def convert(binary, model, to, out):
    subprocess.run([binary, "convert", "--model", model, "--to", to, out, "--json"], check=True, stdout=subprocess.PIPE)
    return out


def log_softmax(logits):
    x = logits.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def compare(reference, other):
    """Row by row: KL(reference || other) in nats, and whether both have the same first choice."""
    p, q = log_softmax(reference), log_softmax(other)
    return (np.exp(p) * (p - q)).sum(axis=1), reference.argmax(axis=1) == other.argmax(axis=1)


def summary(rows):
    kl, same = (np.concatenate(part) for part in zip(*rows))
    return {"positions": len(kl), "kl_mean": float(kl.mean()), "kl_p95": float(np.percentile(kl, 95)),
            "kl_max": float(kl.max()), "top1_agreement": float(same.mean())}


def eval_ours(binary, model, files, work, threads, prefill_weights="bf16"):
    """`isthmus eval`: KL of our model from the logits in `files`, for both arithmetics."""
    out = work / "eval.json"
    references = [arg for f in files for arg in ("--reference-logits", f)]
    subprocess.run([binary, "eval", "--model", model, *references, "--json", out, "--threads", str(threads),
                    "--prefill-weights", prefill_weights], check=True,
                   stdout=subprocess.DEVNULL)
    result = json.loads(out.read_text())
    return {name: result[name] for name in ("prompt_arithmetic", "step_arithmetic")}


def measure(binary, model, work, threads=2, forms=()):
    """All numbers as one object; `forms`: other prompt weights to compare with the exact values. Needs 3.6 GB under `work` (a
    pathlib.Path) while it runs."""
    exact_model = convert(binary, model, "f32", work / "exact.gguf")
    f16_model = convert(binary, model, "f16", work / "f16.gguf")
    files = {"file": [], "exact": [], "f16": []}
    listed, apart, itself = [], [], []
    with llama_peer.LlamaModel(model, threads, CONTEXT) as usual, \
            llama_peer.LlamaModel(model, threads, CONTEXT, exact_attention=True) as other, \
            llama_peer.LlamaModel(exact_model, threads, CONTEXT, exact_attention=True) as exact, \
            llama_peer.LlamaModel(f16_model, threads, CONTEXT) as f16:
        for name, text in documents().items():
            ids = usual.tokenize(text)[:PROMPT_TOKENS + COMPARED_TOKENS]
            digest = hashlib.sha256(np.array(ids, dtype="<i4").tobytes()).hexdigest()
            listed.append({"name": name, "tokens": len(ids), "compared": len(ids) - PROMPT_TOKENS, "ids_sha256": digest})
            logits = {"file": usual.logits(ids, PROMPT_TOKENS), "exact": exact.logits(ids, PROMPT_TOKENS),
                      "f16": f16.logits(ids, PROMPT_TOKENS)}
            apart.append(compare(logits["exact"], logits["file"]))
            itself.append(compare(logits["file"], other.logits(ids, PROMPT_TOKENS)))
            for kind, values in logits.items():
                files[kind].append(work / f"{kind}-{len(listed)}.safetensors")
                save_file({"ids": np.array(ids, dtype=np.int32), "logits": values}, files[kind][-1], {"first": str(PROMPT_TOKENS)})
    return {
        "model": {"file": pathlib.Path(model).name, "sha256": sha256_file(model)},
        "llama_cpp": {"llama-cpp-python": llama_peer.VERSION, "build": llama_peer.build()},
        "documents": listed,
        "positions": sum(d["compared"] for d in listed),
        "ours_from_llama": eval_ours(binary, model, files["file"], work, threads),
        "ours_from_llama_f16": eval_ours(binary, f16_model, files["f16"], work, threads),
        "ours_from_exact": eval_ours(binary, model, files["exact"], work, threads),
        "ours_from_exact_with_prefill_weights": {
            form: eval_ours(binary, model, files["exact"], work, threads, form)["prompt_arithmetic"] for form in forms},
        "llama_from_exact": summary(apart),
        "llama_from_itself_with_f32_attention": summary(itself),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isthmus-parity-") as work:
        result = measure(args.binary, args.model, pathlib.Path(work), args.threads, ("int8", "fp8"))
    result = {"date": datetime.date.today().isoformat(), "machine": platform.machine(), "threads": args.threads, **result}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    rows = [(f"{who}, {arithmetic}", r) for who in OURS for arithmetic, r in result[who].items()]
    forms = result["ours_from_exact_with_prefill_weights"]
    rows += [(f"ours_from_exact, prompt_arithmetic, {form}", forms[form]) for form in forms]
    rows += [(who, result[who]) for who in ("llama_from_exact", "llama_from_itself_with_f32_attention")]
    for who, r in rows:
        print(f"{who:46} mean KL {r['kl_mean']:.5f}  same first choice {r['top1_agreement']:.2%}")


if __name__ == "__main__":
    main()
