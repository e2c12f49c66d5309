"""A program, which `export` makes or `load` reads. The C library owns it and has verified it."""

from __future__ import annotations

import ctypes as C
import functools
import json
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clave import _library as L
from clave import _tensors, arguments, structure
from clave.dtypes import COMPLEX, NUMPY
from clave.errors import Code, Error, UnsupportedOp
from clave.tokenizer import TOKENIZER_SECTION, Tokenizer

if TYPE_CHECKING:
    import torch

    from clave import schema
    from clave.report import Report


_ALIGNMENT = 64  # bytes; of a file in memory, see clave_program_load_bytes
_owning = threading.Lock()


@dataclass(frozen=True)
class Argument:
    """An input or output of a method, similar to those of onnxruntime's get_inputs() and get_outputs().

    dtype: numpy's, or ml_dtypes' for bf16 and 8-bit floats. shape: for each dimension its size, the name of an open
    size, or None for an open size without a name. bounds: smallest and largest size of each dimension, None if there is
    no largest. is_scalar: the argument is a Python number. number: the number of the dtype in the schema. A complex
    tensor is described as pairs of real numbers.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...]
    is_scalar: bool
    bounds: tuple[tuple[int, int | None], ...] = ()
    number: int = 0

    def __str__(self) -> str:
        if self.is_scalar:
            return f"{self.name} {self.dtype}"
        sizes = map(_size_in_words, self.shape, self.bounds)
        return f"{self.name} {self.dtype} ({', '.join(sizes)}{',' if len(self.shape) == 1 else ''})"

    def as_complex(self) -> Argument:
        """Returns the complex tensor whose real and imaginary parts are the last dimension."""
        return replace(self, dtype=COMPLEX[self.dtype], shape=self.shape[:-1], bounds=self.bounds[:-1])


def _size_in_words(size: int | str | None, bounds: tuple[int, int | None]) -> str:
    if isinstance(size, int):
        return str(size)
    low, high = bounds
    return f"{size or '?'} {low} to {high}" if high is not None else f"{size or '?'} {low} or more"


@dataclass(frozen=True)
class Method:
    """A named entry point. n_nodes: number of its instructions, including those of bodies. metadata: the structure of
    arguments and results, {} if the exporter wrote none.
    """

    name: str
    inputs: list[Argument]
    outputs: list[Argument]
    n_nodes: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def complex_inputs(self) -> set[int]:
        """Indices of the inputs that are complex: pairs of real numbers in the last dimension."""
        return structure.complex_leaves(self.metadata["inputs"]) if self.metadata else set()

    @functools.cached_property
    def complex_outputs(self) -> set[int]:
        """Indices of the outputs that are complex: results, and new values of complex inputs."""
        if not self.metadata:
            return set()
        changed = {output for i, output in self.metadata.get("changed", ()) if i in self.complex_inputs}
        return structure.complex_leaves(self.metadata["outputs"]) | changed

    def given(self) -> list[Argument]:
        """Returns the inputs as a session accepts them: complex ones as complex tensors."""
        return [a.as_complex() if i in self.complex_inputs else a for i, a in enumerate(self.inputs)]

    def results(self) -> list[Argument]:
        """Returns the outputs as a session returns them: complex ones as complex tensors."""
        return [a.as_complex() if i in self.complex_outputs else a for i, a in enumerate(self.outputs)]

    def __str__(self) -> str:
        given, results = ", ".join(map(str, self.given())), ", ".join(map(str, self.results()))
        return f"{self.name}: {given or 'no inputs'} -> {results or 'no outputs'}"


@dataclass(frozen=True)
class Place:
    """The place where a node of a method runs, see clave_placement_info. where: "opencl", "cpu", "host", "view",
    "control", "fused" or "none". reason: why the node is not on the preferred device, None if it is. supported: the
    preferred device can run the node, or the node needs no device.
    """

    op: str
    name: str
    where: str
    reason: str | None
    supported: bool


class Program:
    """A verified program. `methods` has its methods by name. `save(path)` writes .clv, or .json with consts.safetensors
    in the same folder.

    passes: how often each pass of `optimized` applied, by name. refused: why the result of a pass was rejected, by
    name. errors: the largest error that an export with verify=True saw, by method. All are empty for a loaded program.
    """

    def __init__(self, built: schema.Program, constants: list[torch.Tensor]) -> None:
        """built: the program with numbered slots. constants: contiguous, in slot order. Raises Error if the verifier
        refuses the program."""
        from clave import schema
        from clave._generated.serialize import serialize
        from clave.constants import snapshots_of

        if not isinstance(built, schema.Program):
            raise arguments.refused("built", "a schema.Program, which clave.export makes (a file: clave.load)", built)

        self.passes: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.errors: dict[str, float] = {}
        if not isinstance(constants, list | tuple) or len(constants) != len(built.constants):
            raise arguments.refused("constants", f"a list of {len(built.constants)} tensors", constants)
        self._snapshots = snapshots_of([c.name for c in built.constants], constants)
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
        """Returns the program in FlatBuffers."""
        data, size = C.c_void_p(), C.c_size_t()
        L.call("clave_program_encode", self.handle.pointer, C.byref(data), C.byref(size))
        try:
            return C.string_at(data, size.value)
        finally:
            L.library().clave_text_free(data)

    def stored(self) -> Iterator[bytes]:
        """Yields the bytes of each constant, in order, as the program stores them. The bytes of an encoded constant are
        its codes."""
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
        """Points the data of `wanted` to a constant. Returns its number of bytes."""
        found = L.Tensor()
        L.call("clave_program_constant", self.handle.pointer, slot, C.byref(found))
        wanted.data = found.data
        return math.prod(wanted.dims[: wanted.rank]) * int(L.library().clave_dtype_size(wanted.dtype))

    @functools.cached_property
    def report(self) -> Report:
        """A summary of the program and of the export. Its str() is a table."""
        from clave.report import Report

        return Report.of(self.schema, _info(self.handle).constant_bytes, self.passes, self.errors)

    def optimized(self, passes: Iterable[str] | None = None) -> Program:
        """Returns a program that computes the same in fewer instructions, see clave_program_optimize. Its `passes` says
        which passes applied. passes: names of the passes to run; None: all. Raises Error for an unknown name."""
        found: dict[str, int] = {}
        refused: dict[str, str] = {}

        def report(_: Any, info: Any) -> None:
            name = info.contents.name.decode()
            if info.contents.applied:
                found[name] = info.contents.applied
            if info.contents.refused:
                refused[name] = info.contents.refused.decode()

        names = None if passes is None else [p.encode() for p in arguments.names("passes", passes)]
        array = None if names is None else (C.c_char_p * (len(names) + 1))(*names)
        options = L.OptimizeOptions(C.sizeof(L.OptimizeOptions), array, len(names or ()), L.PASS_FN(report), None)
        made = Program.__new__(Program)
        given = (self.handle.pointer, C.byref(options))
        made.handle = L.Handle("clave_program_optimize", "clave_program_destroy", *given, keep=(self.handle,))
        made.methods = _read_methods(made.handle)
        made.passes, made.refused, made.errors = found, refused, self.errors
        made._snapshots = self._snapshots
        return made

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Reads a program file, .clv or .json, or imports an ONNX, TFLite or GGUF model, or a folder with a language
        model in ONNX. Raises Error (a RuntimeError) if the file cannot be read or is malformed, and UnsupportedOp if an
        imported model has unsupported ops."""
        name = arguments.path("path", path)
        return (
            loaded("clave_llm_import", (name,)) if os.path.isdir(path) else loaded("clave_program_load", (name, None))
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program. The file extension selects the format. A failure leaves no partial file. Raises Error if
        the module's weights were changed after the export."""
        name = arguments.path("path", path)
        self.check_unchanged()
        L.call("clave_program_save", self.handle.pointer, name)
        try:
            self.check_unchanged()
        except Error:
            Path(path).unlink(missing_ok=True)  # its weights may be partly old, partly new
            raise

    def check_unchanged(self) -> None:
        """Raises Error if a weight that the program shares with a module was changed after the export.
        docs/howto/export.md says which changes are noticed."""
        for taken in self._snapshots:
            taken.check()

    def own_weights(self) -> None:
        """Copies weights that are shared with a module, which may change afterwards. Weights that are mapped from a
        file stay there. Raises Error if a weight was changed already."""
        with _owning:
            self.check_unchanged()
            if not self._snapshots:
                return
            L.call("clave_program_own_constants", self.handle.pointer)
            self.check_unchanged()  # otherwise the copy may be partly old, partly new
            self._snapshots = []

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the program, as JSON values. "llm" is the part of language models, see
        docs/reference/language_models.md."""
        return _read_json(_info(self.handle).metadata)

    @metadata.setter
    def metadata(self, value: dict[str, Any]) -> None:
        if not isinstance(value, dict):
            raise arguments.refused("metadata", "a dict", value)
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError) as e:
            raise Error(f"metadata: expected JSON values: {e}") from e
        L.call("clave_program_set_metadata", self.handle.pointer, text.encode())

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that a .clv carries, or None."""
        return Tokenizer.of_program(self.handle)

    @property
    def tokenizer_file(self) -> bytes | None:
        """The contents of the tokenizer's file, or None."""
        size = C.c_size_t()
        data = L.library().clave_program_section(self.handle.pointer, TOKENIZER_SECTION, C.byref(size))
        return C.string_at(data, size.value) if data else None

    def set_tokenizer(self, source: str | os.PathLike[str] | bytes | None) -> None:
        """Adds a tokenizer's file to the .clv, from a path or bytes; None removes it. Raises Error if it cannot be
        read or is not a tokenizer."""
        data = source if source is None or isinstance(source, bytes) else _read("source", source)
        if data is not None:
            Tokenizer(data)
        L.call("clave_program_set_section", self.handle.pointer, TOKENIZER_SECTION, data, len(data or b""))

    def __repr__(self) -> str:
        return f"<clave.Program {'; '.join(map(str, self.methods.values()))}>"

    def __reduce__(self) -> Any:
        """Copies and pickles the program's file, without packed weights for devices."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "program.clv"
            self.save(file)
            return _of_bytes, (file.read_bytes(), self.passes, self.refused, self.errors)


def load_bytes(data: bytes, name: str) -> Program:
    """Works like Program.load with the contents of a .clv, or of a model that is imported. name: used in messages."""
    room = np.empty(len(data) + _ALIGNMENT, np.uint8)
    aligned = room[-room.ctypes.data % _ALIGNMENT :][: len(data)]
    aligned[:] = np.frombuffer(data, np.uint8)
    return loaded("clave_program_load_bytes", (aligned.ctypes.data, len(data), name.encode()), (room,))


def _of_bytes(data: bytes, passes: dict[str, int], refused: dict[str, str], errors: dict[str, float]) -> Program:
    """Makes a program from the bytes of a .clv. Constants are used in place, in an aligned copy of the bytes."""
    made = load_bytes(data, "a copy of a program")
    made.passes, made.refused, made.errors = passes, refused, errors
    return made


def loaded(call: str, given: tuple[Any, ...], keep: tuple[Any, ...] = ()) -> Program:
    """Returns the program that a function of the library makes. given: its arguments. keep: what they borrow."""
    made = Program.__new__(Program)
    made.passes, made.refused, made.errors, made._snapshots = {}, {}, {}, []
    try:
        made.handle = L.Handle(call, "clave_program_destroy", *given, keep=keep)
    except Error as e:
        raise _unsupported(e) or e from None
    made.methods = _read_methods(made.handle)
    return made


def _unsupported(error: Error) -> UnsupportedOp | None:
    """Returns an importer's list of unsupported ops, "unsupported: OP...; OP...; FILE", as an exception."""
    kind, _, rest = str(error).partition(": ")
    if error.code != Code.UNSUPPORTED or kind != "unsupported":
        return None
    reasons: dict[str, str] = {}
    for item in rest.split("; ")[:-1]:
        if re.match(r"and \d+ other nodes", item):
            continue
        op, reason = (*re.split(r"[: ]+", item, maxsplit=1), "")[:2]
        reason, *nodes = re.split(r" ?\((?=\d+ nodes?: )", reason, maxsplit=1)
        words = [reason[1:-1] if reason.startswith("(") else reason, *(n.removesuffix(")") for n in nodes)]
        reasons[op] = "; ".join(filter(None, (reasons.get(op), *words)))
    return UnsupportedOp(list(reasons), reasons)


def _info(handle: L.Handle) -> L.ProgramInfo:
    info = L.ProgramInfo()
    L.call("clave_program_get_info", handle.pointer, C.byref(info))
    return info


def _read(name: str, path: Any) -> bytes:
    arguments.path(name, path, "a path, bytes or None")
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise Error(f"{name}: expected a file, got {os.fspath(path)!r}: {e.strerror}", Code.IO) from e


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
    """Returns a JSON object, or {} for anything else, because other importers may write another value or nothing."""
    try:
        found = json.loads(text or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _read_metadata(text: bytes | None) -> dict[str, Any]:
    """Returns the exporter's description of arguments and results, or {} without one."""
    found = _read_json(text)
    return found if {"inputs", "outputs"} <= set(found) else {}


def _read_argument(handle: L.Handle, getter: str, method: bytes, index: int) -> Argument:
    info = L.TensorInfo()
    L.call(getter, handle.pointer, method, index, C.byref(info))
    sizes, axes = info.dims[: info.rank], range(info.rank)
    names = [None if n is None else n.decode(errors="replace") for n in info.dim_names[: info.rank]]
    shape = tuple(name if size == L.DYNAMIC else size for name, size in zip(names, sizes, strict=True))
    bounds = tuple((info.min_dims[a], None if info.max_dims[a] == L.UNBOUNDED else info.max_dims[a]) for a in axes)
    name = (info.name or b"").decode(errors="replace")
    return Argument(name, NUMPY[info.dtype], shape, info.is_scalar, bounds, info.dtype)
