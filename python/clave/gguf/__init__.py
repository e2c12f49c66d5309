"""GGUF files, llama.cpp's, as programs: `from_gguf`. See docs/howto/gguf.md."""

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
    """A language model of a GGUF file: a method forward(tokens, position), its tokenizer and chat template.

    Weights in blocks stay as they are, and what is not converted is not copied: the file must stay while the program is
    used. max_context: tokens that the cache holds; None: what the model was made for, at most 4096. kv: what the cache
    is made of, "f32", "f16", "bf16" or "int8". prompt_piece: tokens that a layer with a window takes at once.
    tokenizer: a tokenizer.json, a SentencePiece .model or a folder with one, in place of the file's own. Error: one
    line, with the file's name; also of Program.save and Session, if the GGUF file was changed meanwhile.
    """
    check_options(kv, max_context, prompt_piece)
    given = None if tokenizer is None else Given(tokenizer)
    file = File(path)
    numbers = read_numbers(file)
    context = min(numbers.context, CONTEXT) if max_context is None else max_context
    weights = Weights(file)
    model = Decoder(weights, numbers, context).eval()
    weights.check_all_taken()
    if given:
        given.check(file, model.n_vocab)
    own = read_tokenizer(file, model.n_vocab) if given is None else None
    said = read_metadata(file, model.n_vocab, given)
    model.make_caches(file, KV[kv], prompt_piece)
    program = _exported(model, weights)
    program.set_tokenizer(given.data if given else own)
    program.metadata = {"llm": {"max_context": context, **said, **_origin(file)}}
    program.must_hold(file.check_unchanged)
    program.check_unchanged()
    return program


def _origin(file: File) -> dict[str, Any]:
    """Licence, name and architecture, as far as the file says them in texts."""
    source = {"name": _said(file, "general.name"), "architecture": _said(file, "general.architecture")}
    found = {"license": _said(file, "general.license"), "source": {k: v for k, v in source.items() if v}}
    return {k: v for k, v in found.items() if v}


def _said(file: File, key: str) -> Any:
    try:
        return file.text(key, None)
    except Error:  # of another kind: nobody needs it to run the model
        return None


def _exported(model: Decoder, weights: Weights) -> Program:
    try:
        program = export_model(model, model.max_context, weights.stored)
    except Error as e:
        raise weights.file.error(str(e), e.code) from e
    weights.check_all_stored()
    return program
