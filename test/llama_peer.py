"""Runs llama.cpp, by PyPI's llama-cpp-python (`ci/venv llama`), on GGUF files as a reference."""

import llama_cpp as L
import numpy as np


@L.llama_log_callback
def _quiet(_level, _text, _user):
    pass


L.llama_log_set(_quiet, None)
L.llama_backend_init()


def _load(path, vocab_only=False):
    params = L.llama_model_default_params()
    params.n_gpu_layers, params.vocab_only = 0, vocab_only
    model = L.llama_model_load_from_file(str(path).encode(), params)
    assert model, f"llama.cpp does not load {path}"
    return model


class Context:
    """A model on the CPU with a cache of f32 and without flash attention."""

    def __init__(self, path, n_vocab, n_context):
        self.model = _load(path)
        params = L.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_context
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = L.GGML_TYPE_F32
        params.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.context = L.llama_init_from_model(self.model, params)
        assert self.context, f"llama.cpp does not create a context for {path}"
        self.n_vocab = n_vocab

    def __call__(self, ids):
        """Returns the logits (n_vocab) of the last id. The ids follow those of earlier calls."""
        array = (L.llama_token * len(ids))(*ids)
        assert L.llama_decode(self.context, L.llama_batch_get_one(array, len(ids))) == 0
        found = L.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(found, (self.n_vocab,)).copy()

    def close(self):
        L.llama_free(self.context)
        L.llama_model_free(self.model)


def logits_of(path, n_vocab, n_context, ids, pieces, n_new):
    """Returns the logits (pieces + n_new, n_vocab) of the last token of each piece and of each id generated greedily,
    and these ids."""
    context, found, new, at = Context(path, n_vocab, n_context), [], [], 0
    try:
        for n in pieces:
            found.append(context(ids[at : at + n]))
            at += n
        for _ in range(n_new):
            new.append(int(found[-1].argmax()))
            found.append(context(new[-1:]))
    finally:
        context.close()
    return np.stack(found), new


def ids_of(path, texts, add_special=False):
    """Returns the ids of each text; special tokens in a text are encoded as their ids."""
    model, found = _load(path, vocab_only=True), []
    vocab, room = L.llama_model_get_vocab(model), (L.llama_token * 10_000)()
    for text in texts:
        data = text.encode()
        n = L.llama_tokenize(vocab, data, len(data), room, len(room), add_special, True)
        assert n >= 0, text
        found.append(room[:n])
    L.llama_model_free(model)
    return found
