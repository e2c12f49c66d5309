"""A program: what export makes and load reads. It lives in the C library, which has verified it."""

from __future__ import annotations

import ctypes as C
import functools
import json
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clave import _library as L
from clave import _tensors, structure
from clave.errors import Error
from clave.tokenizer import TOKENIZER_SECTION, Tokenizer

if TYPE_CHECKING:
    import torch

    from clave import schema
    from clave.report import Report


_owning = threading.Lock()


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

    @functools.cached_property
    def complex_inputs(self) -> set[int]:
        """Those that are complex: pairs of real numbers in the last dimension."""
        return structure.complex_leaves(self.metadata["inputs"]) if self.metadata else set()

    @functools.cached_property
    def complex_outputs(self) -> set[int]:
        return structure.complex_leaves(self.metadata["outputs"]) if self.metadata else set()


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

    passes: how often each pass of `optimized` applied, by name; refused: why a pass's result was not taken, by name;
    errors: the largest error that an export with verify=True saw, by method. All are empty if the program was loaded.
    """

    def __init__(self, built: schema.Program, constants: list[torch.Tensor]) -> None:
        """built: with slots numbered; constants: in slot order, contiguous. Error: what the verifier found wrong."""
        from clave._generated.serialize import serialize
        from clave.constants import take

        self.passes: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.errors: dict[str, float] = {}
        self._holds: list[Callable[[], None]] = []
        self._taken = take([c.name for c in built.constants], constants)
        views = [_tensors.of_torch(c)[0] for c in constants]
        flat = serialize(built)
        array = (L.Tensor * len(views))(*views)
        args = (flat, len(flat), array, len(views))
        self.handle = L.Handle("clave_program_create", "clave_program_destroy", *args, keep=tuple(constants))
        self.methods = _read_methods(self.handle)

    @functools.cached_property
    def schema(self) -> schema.Program:
        """The program as the schema's dataclasses."""
        from clave._decode import decode

        return decode(self._encoded())

    def _encoded(self) -> bytes:
        """The FlatBuffers form."""
        data, size = C.c_void_p(), C.c_size_t()
        L.call("clave_program_encode", self.handle.pointer, C.byref(data), C.byref(size))
        try:
            return C.string_at(data, size.value)
        finally:
            L.library().clave_text_free(data)

    def stored(self) -> Iterator[bytes]:
        """The bytes of each constant, in order, as the program stores it: of encoded ones their codes."""
        sizes: list[int] = []

        def find(_: Any, name: Any, wanted: Any) -> bool:
            sizes.append(self._read_constant(len(sizes), wanted.contents))
            return True

        flat = self._encoded()
        made = L.Handle(
            "clave_program_create_by_name",
            "clave_program_destroy",
            flat,
            len(flat),
            L.FIND_FN(find),
            None,
            keep=(self,),
        )
        for slot, size in enumerate(sizes):
            found = L.Tensor()
            L.call("clave_program_constant", made.pointer, slot, C.byref(found))
            yield C.string_at(found.data, size) if size else b""

    def _read_constant(self, slot: int, wanted: L.Tensor) -> int:
        """Sets what `wanted` is to have for data; its bytes."""
        found = L.Tensor()
        L.call("clave_program_constant", self.handle.pointer, slot, C.byref(found))
        wanted.data = found.data
        return math.prod(wanted.dims[: wanted.rank]) * int(L.library().clave_dtype_size(wanted.dtype))

    @functools.cached_property
    def report(self) -> Report:
        """What is in the program, and what the export did: str() of it is a table."""
        from clave.report import Report

        return Report.of(self.schema, _info(self.handle).constant_bytes, self.passes, self.errors)

    def optimized(self, passes: Iterable[str] | None = None) -> Program:
        """A program that computes the same in fewer instructions, see clave_program_optimize; its `passes` say what
        applied. passes: which to run, by name; None: all. Error: there is no such pass."""
        found: dict[str, int] = {}
        refused: dict[str, str] = {}

        def report(_: Any, info: Any) -> None:
            name = info.contents.name.decode()
            if info.contents.applied:
                found[name] = info.contents.applied
            if info.contents.refused:
                refused[name] = info.contents.refused.decode()

        names = None if passes is None else [p.encode() for p in passes]
        array = None if names is None else (C.c_char_p * (len(names) + 1))(*names)
        options = L.OptimizeOptions(C.sizeof(L.OptimizeOptions), array, len(names or ()), L.PASS_FN(report), None)
        made = Program.__new__(Program)
        arguments = (self.handle.pointer, C.byref(options))
        made.handle = L.Handle("clave_program_optimize", "clave_program_destroy", *arguments, keep=(self.handle,))
        made.methods = _read_methods(made.handle)
        made.passes, made.refused, made.errors = found, refused, self.errors
        made._taken, made._holds = self._taken, self._holds
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """A program file, .clv or .json. Error (a RuntimeError) says what is wrong with it."""
        self = cls.__new__(cls)
        self.passes, self.refused, self.errors, self._taken, self._holds = {}, {}, {}, [], []
        self.handle = L.Handle("clave_program_load", "clave_program_destroy", os.fsencode(path), None)
        self.methods = _read_methods(self.handle)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program whole or not at all; the ending says the form. Error: the module was changed meanwhile."""
        self.check_unchanged()
        L.call("clave_program_save", self.handle.pointer, os.fsencode(path))
        try:
            self.check_unchanged()
        except Error:
            Path(path).unlink(missing_ok=True)  # its weights may be of two states
            raise

    def check_unchanged(self) -> None:
        """Error if a weight that the program shares with a module was changed after the export (docs/export.md says
        what is noticed), or if what `must_hold` does not hold."""
        for check in (*self._holds, *(t.check for t in self._taken)):
            check()

    def own_weights(self) -> None:
        """Copies what is shared with a module, which may change from then on; what is mapped from a file stays there.
        Error: it was changed already."""
        with _owning:
            self.check_unchanged()
            if self._holds or not self._taken:
                return
            L.call("clave_program_own_constants", self.handle.pointer)
            self.check_unchanged()  # else the copy may be of two states
            self._taken = []

    def must_hold(self, check: Callable[[], None]) -> None:
        """check: raises an Error where what the program's weights are mapped from is no more what it was."""
        self._holds.append(check)

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

    @property
    def tokenizer_file(self) -> bytes | None:
        """The bytes that set_tokenizer was given, None if there are none."""
        size = C.c_size_t()
        data = L.library().clave_program_section(self.handle.pointer, TOKENIZER_SECTION, C.byref(size))
        return C.string_at(data, size.value) if data else None

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
