"""A program: what export makes and load reads. It lives in the C library, which has verified it."""

from __future__ import annotations

import ctypes as C
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clave import _library as L
from clave import _tensors
from clave.tokenizer import TOKENIZER_SECTION, Tokenizer

if TYPE_CHECKING:
    import torch

    from clave import schema


@dataclass(frozen=True)
class Argument:
    """An input or output of a method. shape: None where a size is not known before; dtype: the schema's number."""

    name: str
    dtype: int
    shape: tuple[int | None, ...]
    is_scalar: bool


@dataclass(frozen=True)
class Method:
    """A named entry point. n_nodes: its instructions, with those of bodies. metadata: the structure of arguments and
    results, {} if the exporter wrote none.
    """

    name: str
    inputs: list[Argument]
    outputs: list[Argument]
    n_nodes: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Where a node of a method runs, see clave_placement_info: `where` is "opencl", "cpu", "host", "view", "control",
    "fused" or "none". reason: why not on the preferred device, None if it is there. supported: it is, or needs none.
    """

    op: str
    name: str
    where: str
    reason: str | None
    supported: bool


class Program:
    """A verified program. `methods` by name; `save(path)` writes .clv, or .json with consts.safetensors beside it.

    schema: the dataclasses it was built from, None if it was loaded from a file. passes: how often the exporter's
    passes and patterns applied, by name; empty if it was loaded.
    """

    def __init__(
        self, built: schema.Program, constants: list[torch.Tensor], passes: dict[str, int] | None = None
    ) -> None:
        """built: with slots numbered; constants: in slot order, contiguous. Error: what the verifier found wrong."""
        from clave._generated.serialize import serialize

        self.schema: schema.Program | None = built
        self.passes: dict[str, int] = passes or {}
        views = [_tensors.of_torch(c)[0] for c in constants]
        flat = serialize(built)
        array = (L.Tensor * len(views))(*views)
        args = (flat, len(flat), array, len(views))
        self.handle = L.Handle("clave_program_create", "clave_program_destroy", *args, keep=tuple(constants))
        self.methods = _read_methods(self.handle)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """A program file, .clv or .json. Error (a RuntimeError) says what is wrong with it."""
        self = cls.__new__(cls)
        self.schema = None
        self.passes = {}
        self.handle = L.Handle("clave_program_load", "clave_program_destroy", os.fsencode(path), None)
        self.methods = _read_methods(self.handle)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program whole or not at all; the ending says the form."""
        L.call("clave_program_save", self.handle.pointer, os.fsencode(path))

    @property
    def metadata(self) -> dict[str, Any]:
        """What is said about the program besides its methods, JSON; "llm": of a language model, see docs/llm.md."""
        return _read_json(_info(self.handle).metadata)

    @metadata.setter
    def metadata(self, value: dict[str, Any]) -> None:
        L.call("clave_program_set_metadata", self.handle.pointer, json.dumps(value).encode())

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The one that a .clv carries."""
        return Tokenizer.of_program(self.handle)

    def set_tokenizer(self, source: str | os.PathLike[str] | bytes | None) -> None:
        """Makes a .clv carry a tokenizer's file, given a path or bytes; None: none. Error: what is wrong with it."""
        data = source if source is None or isinstance(source, bytes) else Path(source).read_bytes()
        if data is not None:
            Tokenizer(data)
        L.call("clave_program_set_section", self.handle.pointer, TOKENIZER_SECTION, data, len(data or b""))

    def __repr__(self) -> str:
        return f"<clave.Program {', '.join(self.methods)}>"


def _info(handle: L.Handle) -> L.ProgramInfo:
    info = L.ProgramInfo()
    L.call("clave_program_get_info", handle.pointer, C.byref(info))
    return info


def _read_methods(handle: L.Handle) -> dict[str, Method]:
    methods = [_read_method(handle, i) for i in range(_info(handle).n_methods)]
    return {m.name: m for m in methods}


def _read_method(handle: L.Handle, index: int) -> Method:
    m = L.MethodInfo()
    L.call("clave_program_method", handle.pointer, index, C.byref(m))
    inputs = [_read_argument(handle, "clave_program_input", m.name, i) for i in range(m.n_inputs)]
    outputs = [_read_argument(handle, "clave_program_output", m.name, i) for i in range(m.n_outputs)]
    return Method(m.name.decode(), inputs, outputs, m.n_nodes, _read_metadata(m.metadata))


def _read_json(text: bytes | None) -> dict[str, Any]:
    """Other importers may write something else than an object, or nothing."""
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_metadata(text: bytes | None) -> dict[str, Any]:
    """The exporter's description of arguments and results; {} if there is none."""
    found = _read_json(text)
    return found if {"inputs", "outputs"} <= set(found) else {}


def _read_argument(handle: L.Handle, getter: str, method: bytes, index: int) -> Argument:
    info = L.TensorInfo()
    L.call(getter, handle.pointer, method, index, C.byref(info))
    shape = tuple(None if d == L.DYNAMIC else d for d in info.dims[: info.rank])
    return Argument((info.name or b"").decode(), info.dtype, shape, info.is_scalar)
