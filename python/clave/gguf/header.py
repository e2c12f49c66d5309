"""Reads the header of a GGUF file: the places of its keys' values and tensors, checked against the file's size.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. PyPI's gguf has the names and sizes of types.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clave._extras import install_command
from clave.errors import Code, Error

try:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType
except ModuleNotFoundError as e:
    command = install_command("gguf")
    raise Error(f"clave.from_gguf needs the Python package gguf: {command}", Code.UNSUPPORTED) from e

Kind = GGUFValueType
FORMATS = {  # formats of Python's struct; texts are absent, because they begin with their length
    Kind.UINT8: "B",
    Kind.INT8: "b",
    Kind.UINT16: "H",
    Kind.INT16: "h",
    Kind.UINT32: "I",
    Kind.INT32: "i",
    Kind.FLOAT32: "f",
    Kind.BOOL: "?",
    Kind.UINT64: "Q",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}
_TEXT_SIZE = 8  # bytes of a text's length
_MIN_KEY, _MIN_TENSOR = 13, 24  # bytes of an entry with an empty name
_MAX_NAME, _MAX_DIMENSIONS = 65535, 4
_ALIGNMENT = 32  # the default
_REMOVED = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4"}  # from llama.cpp


def shown(value: Any) -> str:
    """Returns a name or text of a file for a message: in one line, and shortened if it is long."""
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:80]}...{text[-10:]}"


@dataclass(frozen=True)
class Value:
    """The value of a key. of: kind of an array's elements, None for other values. count: number of elements, 1 for
    other values. at, end: its range of bytes in the file."""

    kind: Kind
    of: Kind | None
    count: int
    at: int
    end: int


@dataclass(frozen=True)
class Tensor:
    """A tensor in the file. shape: in torch's order, the file's last dimension first. at: offset of its first byte in
    the file. size: in bytes."""

    name: str
    type: GGMLQuantizationType
    shape: tuple[int, ...]
    at: int
    size: int


class _Cursor:
    """Reads the data in order, from `at`. fail: makes an error with a message."""

    def __init__(self, data: Any, fail: Callable[[str], Error]) -> None:
        self.data, self.fail, self.at = data, fail, 0

    def skip(self, n: int, what: str) -> int:
        """Skips n bytes and returns the offset of the first. Raises an error if the file ends before."""
        at, size = self.at, len(self.data)
        if n > size - at:
            raise self.fail(f"expected {at + n} bytes or more, got {size}: it ends within {what}")
        self.at += n
        return at

    def number(self, format: str, what: str) -> Any:
        format = f"<{format}"
        return struct.unpack_from(format, self.data, self.skip(struct.calcsize(format), what))[0]

    def count(self, what: str, least: int) -> int:
        """Reads a number of items. Raises an error if the rest of the file is too short for `least` bytes each."""
        n: int = self.number("Q", f"the number of {what}")
        if n > (len(self.data) - self.at) // least:
            raise self.fail(f"has {len(self.data)} bytes, too few for the {n} {what} that it names")
        return n

    def kind(self, what: str) -> Kind:
        n = self.number("I", what)
        if n not in Kind.__members__.values():
            raise self.fail(f"{what}: expected type 0 to {max(Kind)}, got {n}")
        return Kind(n)

    def name(self, what: str) -> str:
        n: int = self.number("Q", what)
        if n > _MAX_NAME:
            raise self.fail(f"{what}: expected at most {_MAX_NAME} bytes, got {n}")
        at = self.skip(n, what)
        try:
            return str(self.data[at : self.at], "utf-8")
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not UTF-8") from None

    def texts(self, n: int, what: str) -> None:
        """Skips n texts."""
        length = struct.Struct("<Q").unpack_from
        for _ in range(n):
            self.skip(length(self.data, self.skip(_TEXT_SIZE, what))[0], what)


def read_header(data: Any, fail: Callable[[str], Error]) -> tuple[dict[str, Value], dict[str, Tensor]]:
    """Returns keys and tensors by name, in the file's order. data: the file's bytes. fail: makes an error with a
    message, which is raised if the header is malformed."""
    c = _Cursor(data, fail)
    n_tensors, n_keys = _read_start(c)
    keys: dict[str, Value] = {}
    for i in range(n_keys):
        name = c.name(f"the name of key {i + 1} of {n_keys}")
        if name in keys:
            raise fail(f"has key {shown(name)} twice")
        keys[name] = _read_value(c, f"key {shown(name)}")
    infos = [_read_info(c, f"the name of tensor {i + 1} of {n_tensors}") for i in range(n_tensors)]
    tensors = _placed(c, infos, _read_alignment(c, keys))
    return keys, tensors


def _read_start(c: _Cursor) -> tuple[int, int]:
    """Reads the magic number and the version. Returns the numbers of tensors and keys."""
    magic = bytes(c.data[:4])
    if magic != b"GGUF":
        raise c.fail(f"is not a GGUF file: expected {b'GGUF'!r} at its start, got {magic!r}")
    c.skip(4, "the header")
    version = c.number("I", "the header")
    if version and not version & 0xFFFF:
        raise c.fail("expected little-endian, got big-endian")
    if version not in (2, 3):
        raise c.fail(f"expected version 2 or 3 of GGUF, got {version}")
    return c.count("tensors", _MIN_TENSOR), c.count("keys", _MIN_KEY)


def _read_value(c: _Cursor, what: str) -> Value:
    kind, of, count = c.kind(what), None, 1
    if kind == Kind.ARRAY:
        of = c.kind(what)
        if of == Kind.ARRAY:
            raise c.fail(f"{what} is an array of arrays, which is not supported")
        least = struct.calcsize(FORMATS[of]) if of in FORMATS else _TEXT_SIZE
        count = c.count(f"elements of {what}", least)
    at = c.at
    element = kind if of is None else of
    if element == Kind.STRING:
        c.texts(count, what)
    else:
        c.skip(count * struct.calcsize(FORMATS[element]), what)
    return Value(kind, of, count, at, c.at)


@dataclass(frozen=True)
class _Info:
    """The entry of a tensor. offset: in bytes, from the start of all tensors' data."""

    name: str
    dims: tuple[int, ...]
    type: GGMLQuantizationType
    offset: int


def _read_info(c: _Cursor, what: str) -> _Info:
    name = c.name(what)
    what = f"tensor {shown(name)}"
    n: int = c.number("I", what)
    if n > _MAX_DIMENSIONS:
        raise c.fail(f"{what}: expected at most {_MAX_DIMENSIONS} dimensions, got {n}")
    dims = tuple(c.number("Q", what) for _ in range(n))
    kind = c.number("I", what)
    if kind not in GGMLQuantizationType.__members__.values():
        known = f" ({_REMOVED[kind]}, which llama.cpp no longer reads)" if kind in _REMOVED else ""
        raise c.fail(f"{what} is of type {kind}{known}, which is not known")
    return _Info(name, dims, GGMLQuantizationType(kind), c.number("Q", what))


def _read_alignment(c: _Cursor, keys: dict[str, Value]) -> int:
    v = keys.get("general.alignment")
    if v is None:
        return _ALIGNMENT
    if v.kind != Kind.UINT32:
        raise c.fail(f"key 'general.alignment': expected uint32, got {v.kind.name.lower()}")
    found: int = struct.unpack_from("<I", c.data, v.at)[0]
    if found < 8 or found & (found - 1):
        raise c.fail(f"key 'general.alignment': expected a power of two, at least 8, got {found}")
    return found


def _placed(c: _Cursor, infos: list[_Info], alignment: int) -> dict[str, Tensor]:
    """Returns tensors by name. Raises an error if one extends beyond the file, overlaps another or is misaligned."""
    start = -(-c.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for info in infos:
        what = f"tensor {shown(info.name)}"
        if info.name in tensors:
            raise c.fail(f"has {what} twice")
        if info.offset % alignment:
            raise c.fail(f"{what}: expected a multiple of the alignment {alignment} as offset, got {info.offset}")
        elements, size = GGML_QUANT_SIZES[info.type]
        width = info.dims[0] if info.dims else 1
        if width % elements:
            raise c.fail(f"{what} has rows of {width}, {info.type.name} needs a multiple of {elements}")
        tensor = Tensor(
            info.name,
            info.type,
            info.dims[::-1],
            start + info.offset,
            math.prod(info.dims) // elements * size,
        )
        if tensor.at + tensor.size > len(c.data):
            end = tensor.at + tensor.size
            raise c.fail(f"expected {end} bytes or more, got {len(c.data)}: it ends before {what} does")
        tensors[info.name] = tensor
    _check_disjoint(c, list(tensors.values()))
    return tensors


def _check_disjoint(c: _Cursor, tensors: list[Tensor]) -> None:
    by_place = sorted((t for t in tensors if t.size), key=lambda t: t.at)
    for a, b in itertools.pairwise(by_place):
        if b.at < a.at + a.size:
            raise c.fail(f"tensors {shown(a.name)} and {shown(b.name)} overlap, from byte {b.at} on")
