# SPDX-License-Identifier: Apache-2.0
"""llama.cpp through its C API (the Python environment of scripts/venv llama): tokens in; ids, logits and times out.

Used by tests/engines and by bench/peers.py. Nothing of llama-cpp-python's own Python layers is in between.
"""
import ctypes
import time

import llama_cpp
import numpy as np

VERSION = llama_cpp.__version__
FILE_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q8_0": 7}  # llama_ftype

GGML_TYPE_F32 = 0


@llama_cpp.llama_log_callback
def _silent(_level, _text, _user):
    pass


llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()


def build():
    """What the library was compiled for, as it says itself."""
    return llama_cpp.llama_print_system_info().decode().strip()


def requantize(source, target, file_type, threads, pure=False):
    """llama_model_quantize as its users run it (embedding and output finer than the rest), or every matrix in `file_type`."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[file_type]
    params.nthread = threads
    params.allow_requantize = True
    params.pure = pure
    rc = llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params))
    if rc != 0:
        raise RuntimeError(f"llama_model_quantize {source} to {file_type}: status {rc}")


class LlamaModel:
    """One model and one context of `streams` sequences with `context` tokens each.

    Flash attention on a 16-bit cache is what its users run; exact_attention computes in F32 throughout.
    """

    def __init__(self, path, threads=2, context=8192, streams=1, ubatch=512, exact_attention=False):
        params = llama_cpp.llama_model_default_params()
        self._model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.vocab = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self.options = {"threads": threads, "context": context, "streams": streams, "ubatch": ubatch,
                        "flash_attention": not exact_attention, "cache": "f32" if exact_attention else "f16"}
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context * streams
        params.n_batch = params.n_ubatch = ubatch
        params.n_seq_max = streams
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if exact_attention:
            params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
            params.type_k = params.type_v = GGML_TYPE_F32
        params.no_perf = True
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp makes no context for {path}")
        self._batch_tokens = ubatch
        self._batch = llama_cpp.llama_batch_init(ubatch, 0, 1)

    def close(self):
        llama_cpp.llama_batch_free(self._batch)
        llama_cpp.llama_free(self._context)
        llama_cpp.llama_model_free(self._model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def tokenize(self, text):
        """Ids of plain text: control tokens in it stay text, nothing is put before it."""
        data = text.encode()
        ids = (llama_cpp.llama_token * (len(data) + 8))()
        n = llama_cpp.llama_tokenize(self._vocab, data, len(data), ids, len(ids), False, False)
        assert n >= 0
        return list(ids[:n])

    def text(self, ids):
        """What the tokens stand for; control tokens are written out."""
        out = b""
        piece = ctypes.create_string_buffer(256)
        for token in ids:
            n = llama_cpp.llama_token_to_piece(self._vocab, token, piece, len(piece), 0, True)
            assert n >= 0
            out += piece.raw[:n]
        return out.decode(errors="replace")

    def _decode(self, entries):
        """entries: (id, position, stream, wants logits), at most one batch."""
        batch = self._batch
        batch.n_tokens = len(entries)
        for i, (token, position, stream, wants) in enumerate(entries):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = stream
            batch.logits[i] = wants
        rc = llama_cpp.llama_decode(self._context, batch)
        if rc != 0:
            raise RuntimeError(f"llama_decode: status {rc}")

    def _row(self, i):
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self._context, i), shape=(self.vocab,))

    def _clear(self):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), False)

    def tokens_held(self, stream=0):
        """Tokens of a sequence that are in the cache, as llama.cpp counts them."""
        return llama_cpp.llama_memory_seq_pos_max(llama_cpp.llama_get_memory(self._context), stream) + 1

    def logits(self, ids, first=0):
        """[len(ids) - first, vocab]: what the model says after each of the tokens from `first` on."""
        self._clear()
        out = np.empty((len(ids) - first, self.vocab), dtype=np.float32)
        for start in range(0, len(ids), self._batch_tokens):
            part = ids[start:start + self._batch_tokens]
            self._decode([(t, start + i, 0, start + i >= first) for i, t in enumerate(part)])
            for i in range(max(0, first - start), len(part)):
                out[start + i - first] = self._row(i)
        return out

    def generate(self, prompts, tokens):
        """Greedy, one sequence per prompt, all in each step; end tokens do not end it. Returns seconds to the prompts' last
        logits, seconds of the steps after that, and the ids of each sequence (`tokens` of them; tokens - 1 steps)."""
        self._clear()
        start = time.perf_counter()
        last = []
        for stream, ids in enumerate(prompts):
            for at in range(0, len(ids), self._batch_tokens):
                part = ids[at:at + self._batch_tokens]
                end = at + len(part) == len(ids)
                self._decode([(t, at + i, stream, end and i == len(part) - 1) for i, t in enumerate(part)])
            last.append(int(self._row(len(part) - 1).argmax()))
        read = time.perf_counter()
        out = [[t] for t in last]
        for step in range(tokens - 1):
            self._decode([(out[s][-1], len(ids) + step, s, True) for s, ids in enumerate(prompts)])
            for s in range(len(prompts)):
                out[s].append(int(self._row(s).argmax()))
        return read - start, time.perf_counter() - read, out
