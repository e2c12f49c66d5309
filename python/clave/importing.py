"""Programs of models in other formats, by the importers of the C library."""

from __future__ import annotations

import ctypes as C
import os
from pathlib import Path
from typing import Any

from clave import _library as L
from clave import arguments
from clave.command import CACHE_TYPES
from clave.errors import Error
from clave.program import Program, load_bytes, loaded
from clave.tokenizer import Tokenizer, message_ends


def from_model(model: Any, kind: str) -> Program:
    """Imports a model: a path, bytes, or a message of protobuf. kind: the format's name, for messages."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, bytes | bytearray | memoryview):
        return load_bytes(bytes(model), f"the {kind} model")
    if isinstance(model, str | os.PathLike):
        arguments.path("model", model)
        return Program.load(model)
    raise arguments.refused("model", f"a path or an {kind} model", model)


def from_gguf(
    path: str | os.PathLike[str],
    max_context: int | None,
    kv: str,
    prompt_piece: int,
    tokenizer: str | os.PathLike[str] | None,
) -> Program:
    """Imports a GGUF file. See clave.from_gguf."""
    name, given = arguments.path("path", path), None
    options = L.ProgramOptions(
        max_context=0 if max_context is None else arguments.integer("max_context", max_context, 2, 2**31 - 1),
        kv=arguments.choice("kv", kv, CACHE_TYPES).encode(),
        prompt_piece=arguments.integer("prompt_piece", prompt_piece, 1, 2**31 - 1),
    )
    if tokenizer is not None:
        arguments.path("tokenizer", tokenizer)
        given, options.has_tokenizer = Tokenizer(tokenizer), True
    program = loaded("clave_program_load", (name, C.byref(options)))
    if given and tokenizer is not None:
        _replace_tokenizer(program, os.fsdecode(name), os.fsdecode(tokenizer), given)
    else:
        _check_tokenizer(program, os.fsdecode(name))
    return program


def _check_tokenizer(program: Program, path: str) -> None:
    """Raises Error if the tokenizer of the file cannot be read: the importer does not interpret what it writes."""
    try:
        program.tokenizer  # noqa: B018
    except Error as e:
        raise Error(f"{path}: its tokenizer: {e}", e.code) from None


def _replace_tokenizer(program: Program, path: str, source: str, given: Tokenizer) -> None:
    """Adds a tokenizer to a program that was imported without its own, and the metadata that follows from it. The
    program does not carry tokenizer_config.json, whose settings are in the metadata."""
    n_vocab = program.methods["forward"].outputs[0].shape[-1]
    if given.n_ids > n_vocab:
        raise Error(f"{path}: {source} has {given.n_ids} tokens, and token_embd.weight has rows for {n_vocab}")
    files = (Path(source) / n for n in ("tokenizer.json", "tokenizer.model"))
    program.set_tokenizer(next((f for f in files if f.exists()), Path(source)).read_bytes())
    metadata = program.metadata
    llm = metadata["llm"]
    llm.setdefault("bos", given.bos)
    ends = [llm.get("eos", given.eos), *llm["stop_ids"], *message_ends(given).values()]
    if ends[0] is not None:
        llm["eos"] = ends[0]
    llm["stop_ids"] = list(dict.fromkeys(i for i in ends if i is not None))
    program.metadata = metadata
