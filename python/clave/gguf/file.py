"""Reads a GGUF file: keys by type, tensors by name. Tensors stay in the mapped file."""

from __future__ import annotations

import ctypes
import math
import os
import stat
import struct
import weakref
from typing import Any

import numpy as np

from clave import arguments
from clave.errors import Code, Error
from clave.gguf.header import FORMATS, GGMLQuantizationType, Kind, Value, read_header
from clave.mapped import Mapped

_INTEGERS = {k for k in FORMATS if k.name.removeprefix("U").startswith("INT")}
_KINDS = {  # kinds of values, and their names in messages
    "text": ({Kind.STRING}, "a text"),
    "integer": (_INTEGERS, "an integer"),
    "number": (_INTEGERS | {Kind.FLOAT32, Kind.FLOAT64}, "a number"),
    "flag": ({Kind.BOOL}, "true or false"),
}
_LARGEST = 1e30  # the largest number that is accepted; its inverse is the smallest
_NO_DEFAULT: Any = object()


class File:
    """A mapped GGUF file. Raises Error, with the file's name, if it is malformed or a key has another type than
    requested."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(arguments.path("path", path))
        self._descriptor = self._open()
        self._state = self._state_now()
        self._is_cut = ctypes.c_bool()
        self._data = self._mapped()
        try:
            self._keys, self.tensors = read_header(self._data, self.error)
        except Error:
            self.check_unchanged()  # a change may be the cause
            raise
        self._read: set[str] = set()
        if self.integer("split.count", 1) > 1:
            n, of = self.integer("split.no", 0) + 1, self.integer("split.count")
            raise self.error(f"expected one file, got part {n} of {of}: llama-gguf-split --merge joins them")

    def error(self, message: str, code: Code = Code.INVALID) -> Error:
        return Error(f"{self.path}: {message}", code)

    # ---- the file

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait for a pipe
        except (OSError, ValueError) as e:
            raise self.error(_reason(e), Code.IO) from None
        weakref.finalize(self, os.close, descriptor)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise self.error("is a folder, not a file" if stat.S_ISDIR(mode) else "is not a regular file", Code.IO)
        return descriptor

    def _mapped(self) -> Any:
        size = self._state[0]
        if not size:
            return b""
        try:
            return Mapped(self._descriptor, size, self._is_cut)
        except (OSError, ValueError) as e:
            raise self.error(f"cannot be mapped: {_reason(e)}", Code.NO_MEMORY) from None

    def _state_now(self) -> tuple[int, int]:
        found = os.fstat(self._descriptor)
        return found.st_size, found.st_mtime_ns

    def check_unchanged(self) -> None:
        """Raises Error if the file was written to or truncated after it was opened, because the mapped data then
        differs from what was read. A new file of the same name is no change: the old one stays mapped."""
        if self._is_cut.value or self._state_now() != self._state:
            raise self.error("was changed after it was read: read it again")

    # ---- keys

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def unread(self, prefix: str) -> list[str]:
        """Returns the keys with a prefix that were not read."""
        return [k for k in self._keys if k.startswith(prefix) and k not in self._read]

    def _value(self, key: str, default: Any) -> Value | None:
        self._read.add(key)
        found = self._keys.get(key)
        if found is None and default is _NO_DEFAULT:
            raise self.error(f"has no key {key!r}")
        return found

    def _one(self, key: str, v: Value, of: str) -> Any:
        kinds, name = _KINDS[of]
        if v.kind not in kinds:
            raise self.error(f"key {key!r}: expected {name}, got {v.kind.name.lower()}")
        if v.kind == Kind.STRING:
            return self._texts(key, v)[0]
        return struct.unpack_from(f"<{FORMATS[v.kind]}", self._data, v.at)[0]

    def _texts(self, key: str, v: Value) -> list[str]:
        found, at = [], v.at
        for i in range(v.count):
            end = at + 8 + int.from_bytes(self._data[at : at + 8], "little")
            try:
                found.append(str(self._data[at + 8 : end], "utf-8"))
            except UnicodeDecodeError:
                where = "" if v.of is None else f", element {i}"
                raise self.error(f"key {key!r}{where} is not UTF-8") from None
            at = end
        return found

    def integer(self, key: str, default: Any = _NO_DEFAULT, least: int = 0, most: int = 2**31 - 1) -> Any:
        """Returns an integer in [least, most], or the default if the key is missing. Raises Error for other values."""
        v = self._value(key, default)
        if v is None:
            return default
        value = self._one(key, v, "integer")
        if not least <= value <= most:
            raise self.error(f"key {key!r}: expected {least} to {most}, got {value}")
        return value

    def number(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        """Returns a number in [1e-30, 1e30], or the default if the key is missing. Raises Error for other values."""
        v = self._value(key, default)
        if v is None:
            return default
        value = float(self._one(key, v, "number"))
        if not 1 / _LARGEST <= value <= _LARGEST:
            raise self.error(f"key {key!r}: expected a positive finite number, got {value}")
        return value

    def text(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        v = self._value(key, default)
        return default if v is None else self._one(key, v, "text")

    def flag(self, key: str, default: Any = _NO_DEFAULT) -> Any:
        v = self._value(key, default)
        return default if v is None else self._one(key, v, "flag")

    def items(self, key: str, of: str, default: Any = _NO_DEFAULT, count: int | None = None) -> Any:
        """Returns the elements of an array, or the default if the key is missing. of: "text", "integer", "number"
        (finite) or "flag". count: the number of elements that is expected, None for any."""
        v = self._value(key, default)
        if v is None:
            return default
        kinds, _ = _KINDS[of]
        if v.of is None:
            raise self.error(f"key {key!r}: expected an array ({of}), got {v.kind.name.lower()}")
        if v.count and v.of not in kinds:
            raise self.error(f"key {key!r}: expected an array of kind {of}, got one of {v.of.name.lower()}")
        if count not in (None, v.count):
            raise self.error(f"key {key!r}: expected {count} elements, got {v.count}")
        if v.of == Kind.STRING:
            return self._texts(key, v)
        found = list(struct.unpack_from(f"<{v.count}{FORMATS[v.of]}", self._data, v.at))
        if of == "number" and not all(map(math.isfinite, found)):
            raise self.error(f"key {key!r} has elements that are not finite")
        return found

    def is_array(self, key: str) -> bool:
        return key in self._keys and self._keys[key].of is not None

    # ---- tensors

    def type_of(self, name: str) -> GGMLQuantizationType:
        return self.tensors[name].type

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Returns the shape in torch's order: the file's last dimension first."""
        return self.tensors[name].shape

    def bytes_of(self, name: str) -> np.ndarray:
        """Returns the mapped bytes of a tensor, (size,) uint8."""
        t = self.tensors[name]
        return np.frombuffer(self._data, np.uint8, t.size, t.at)


def _reason(e: Exception) -> str:
    message = getattr(e, "strerror", None) or str(e)
    return message[:1].lower() + message[1:]
