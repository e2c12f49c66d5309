"""GGUF files, llama.cpp's, as programs: `from_gguf`. See docs/gguf.md."""

from __future__ import annotations

import os

import torch

from clave.errors import Error
from clave.exporter import export
from clave.gguf.architectures import read_numbers
from clave.gguf.file import File
from clave.gguf.model import Decoder
from clave.gguf.tokenizer import Given, read_metadata, read_tokenizer
from clave.gguf.weights import Weights
from clave.program import Program

CONTEXT = 4096  # tokens, where a model was made for more and nothing is said
KV = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8}


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
    _check_options(kv, max_context, prompt_piece)
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
    program.metadata = {"llm": {"max_context": context, **said}}
    program.must_hold(file.check_unchanged)
    program.check_unchanged()
    return program


def _check_options(kv: str, max_context: int | None, prompt_piece: int) -> None:
    if kv not in KV:
        raise Error(f"kv={kv!r}, expected one of {', '.join(KV)}")
    if max_context is not None and not 2 <= max_context < 2**31:
        raise Error(f"max_context={max_context}, expected 2 to {2**31 - 1}")
    if not 1 <= prompt_piece < 2**31:
        raise Error(f"prompt_piece={prompt_piece}, expected 1 to {2**31 - 1}")


def _exported(model: Decoder, weights: Weights) -> Program:
    example = (torch.ones(1, min(3, model.max_context), dtype=torch.int64), torch.tensor(0))
    length = torch.export.Dim("length", min=1, max=model.max_context)
    try:
        program = export(model, example, dynamic_shapes=({1: length}, None), quantize=weights.stored)
    except Error as e:
        raise weights.file.error(str(e), e.code) from e
    weights.check_all_stored()
    return program
