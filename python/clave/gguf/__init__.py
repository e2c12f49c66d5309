"""Converts GGUF files of llama.cpp to programs: `from_gguf`. See docs/howto/gguf.md."""

from __future__ import annotations

import os
from typing import Any

from clave.errors import Error
from clave.gguf.architectures import read_numbers
from clave.gguf.file import File
from clave.gguf.model import Decoder
from clave.gguf.tokenizer import Given, read_metadata, read_tokenizer
from clave.gguf.weights import Weights
from clave.llm.options import CONTEXT, KV, check_options, export_model
from clave.program import Program


def from_gguf(
    path: str | os.PathLike[str],
    *,
    max_context: int | None = None,
    kv: str = "f16",
    prompt_piece: int = 256,
    tokenizer: str | os.PathLike[str] | None = None,
) -> Program:
    """Makes a program from a GGUF file's language model: a method forward(tokens, position), tokenizer and chat
    template.

    Weights in blocks keep their encoding. Weights that need no conversion are mapped, so the file must exist while the
    program is used.

    max_context: capacity of the KV cache in tokens; None: the model's own context, at most 4096. kv: element type of
    the cache, "f32", "f16", "bf16" or "int8". prompt_piece: tokens of a prompt that a layer with a sliding window
    processes at once. tokenizer: a tokenizer.json, a SentencePiece .model, or a folder with one of them, in place of
    the file's own.

    Raises Error, in one line with the file's name. Program.save and Session raise it, too, if the GGUF file was changed
    after the conversion.
    """
    check_options(kv, max_context, prompt_piece)
    given = None if tokenizer is None else Given(tokenizer)
    file = File(path)
    numbers = read_numbers(file)
    context = min(numbers.context, CONTEXT) if max_context is None else max_context
    weights = Weights(file)
    model = Decoder(weights, numbers, context).eval()
    weights.check_all_read()
    if given:
        given.check(file, model.n_vocab)
    own = read_tokenizer(file, model.n_vocab) if given is None else None
    stored = read_metadata(file, model.n_vocab, given)
    model.make_caches(file, KV[kv], prompt_piece)
    program = _exported(model, weights)
    program.set_tokenizer(given.data if given else own)
    program.metadata = {"llm": {"max_context": context, **stored, **_origin(file)}}
    program.must_hold(file.check_unchanged)
    program.check_unchanged()
    return program


def _origin(file: File) -> dict[str, Any]:
    """Returns licence, name and architecture, if the file has them as texts."""
    source = {"name": _text_or_none(file, "general.name"), "architecture": _text_or_none(file, "general.architecture")}
    found = {"license": _text_or_none(file, "general.license"), "source": {k: v for k, v in source.items() if v}}
    return {k: v for k, v in found.items() if v}


def _text_or_none(file: File, key: str) -> Any:
    try:
        return file.text(key, None)
    except Error:  # not a text; running the model does not need it
        return None


def _exported(model: Decoder, weights: Weights) -> Program:
    try:
        program = export_model(model, model.max_context, weights.stored)
    except Error as e:
        raise weights.file.error(str(e), e.code) from e
    weights.check_all_stored()
    return program
