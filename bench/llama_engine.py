"""Makes the measurements of decoder.c with llama.cpp (PyPI's llama-cpp-python) on a GGUF file, in the same format.

llama_engine.py FILE VOCABULARY ROOM THREADS NEW CONTEXT LENGTH...; ROOM: capacity of the cache in tokens
"""

import json
import os
import statistics
import sys
import time

import llama_cpp as L
import numpy as np
from process import peak_rss_mb

CHUNK = 512  # prefill chunk in tokens
LONG = 1024  # prompts of at least this length are timed once


@L.llama_log_callback
def _quiet(_level, _text, _user):
    pass


class Engine:
    """llama.cpp with its defaults: mapped and repacked weights, an f16 cache, automatic flash attention."""

    def __init__(self, path, n_vocab, n_context, n_threads):
        params = L.llama_model_default_params()
        self.model = L.llama_model_load_from_file(path.encode(), params)
        assert self.model, f"llama.cpp does not load {path}"
        params = L.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_context, CHUNK, CHUNK
        params.n_threads = params.n_threads_batch = n_threads
        self.context = L.llama_init_from_model(self.model, params)
        assert self.context, f"llama.cpp does not create a context for {path}"
        self.n_vocab = n_vocab

    def read(self, position, n):
        """Returns the wall and CPU seconds of n tokens from a position on, and the last logits."""
        L.llama_memory_seq_rm(L.llama_get_memory(self.context), 0, position, -1)
        ids = (L.llama_token * n)(*((position + i) * 7919 % self.n_vocab for i in range(n)))
        begin = time.perf_counter(), time.process_time()
        assert L.llama_decode(self.context, L.llama_batch_get_one(ids, n)) == 0
        logits = L.llama_get_logits_ith(self.context, -1)
        spent = time.perf_counter() - begin[0], time.process_time() - begin[1]
        return spent, np.ctypeslib.as_array(logits, (self.n_vocab,)).copy()

    def prefill(self, n):
        """Returns the seconds, like `read`, of n tokens from position 0 on."""
        parts = [self.read(at, min(CHUNK, n - at))[0] for at in range(0, n, CHUNK)]
        return tuple(map(sum, zip(*parts, strict=True)))

    def decode(self, position, n):
        """Returns the result of `read` for each of the n tokens after `position` tokens."""
        self.prefill(position)
        self.read(position, 1)
        return [self.read(position + i, 1) for i in range(n)]


def medians(times):
    clock, processor = zip(*times, strict=True)
    return {"s": statistics.median(clock), "core_s": statistics.median(processor)}


def main():
    L.llama_log_set(_quiet, None)
    L.llama_backend_init()
    path, (n_vocab, room, n_threads, n_new, context, *lengths) = sys.argv[1], map(int, sys.argv[2:])
    begin = time.perf_counter(), time.process_time()
    engine = Engine(path, n_vocab, room, n_threads)
    _, first = engine.read(0, lengths[0])
    found = {"first": {"s": time.perf_counter() - begin[0], "core_s": time.process_time() - begin[1]}}
    for i, n in enumerate(lengths):
        if i and n < LONG:
            engine.prefill(n)
        found[f"prefill {n}"] = medians([engine.prefill(n)])
    tokens = {n: engine.decode(n, n_new) for n in (lengths[0], context) if n}
    found |= {f"decode {n}": medians([t for t, _ in read]) for n, read in tokens.items()}
    if os.environ.get("CLAVE_BENCH_LOGITS"):
        np.stack([first, tokens[lengths[0]][-1][1]]).astype("f").tofile(os.environ["CLAVE_BENCH_LOGITS"])
    found["peak_rss_mb"] = peak_rss_mb()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
