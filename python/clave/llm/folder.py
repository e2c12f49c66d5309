"""Reads a Hugging Face folder: its JSON files, and the places of its tensors. Nothing in it is trusted."""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import re
import stat
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clave import arguments
from clave.errors import Code, Error
from clave.llm import mxfp4
from clave.mapped import Mapped

_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_ADAPTER = "adapter_config.json"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_LARGEST_JSON = 256 << 20  # bytes
_LARGEST_LICENCE = 1 << 20
_LARGEST_HEADER = 100 << 20  # bytes of the header of a safetensors file
_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_READ = _FLOATS | {"U8": torch.uint8}
_BLOCKS, _SCALES = "_blocks", "_scales"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth")


@dataclass(frozen=True)
class Stored:
    """A tensor in a file. dtype: safetensors' name, or mxfp4.DTYPE for two tensors under their common name.

    at: offset of its first byte in the file.
    """

    file: Path
    shape: tuple[int, ...]
    dtype: str
    at: int = 0


class Folder:
    """A Hugging Face folder. Raises Error, with the file's name, if something is missing or malformed.

    tensors: the tensors of all files of weights by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fsdecode(arguments.path("source", path))
        self.path = Path(given)
        self._check_folder(given)
        config = self.json("config.json")
        if config is None:
            raise Error(f"{self.path}: has no config.json, which a model's folder has", Code.IO)
        self.config: dict[str, Any] = config
        self.files = self._weights()
        self._states = {f: _state(f) for f in self.files}
        self._is_cut = {f: ctypes.c_bool() for f in self.files}
        self._mapped: weakref.WeakValueDictionary[Path, Mapped] = weakref.WeakValueDictionary()
        self.tensors: dict[str, Stored] = {}
        self._parts: dict[str, Stored] = {}
        for file in self.files:
            self._read_header(file)
        self._check_index()
        self.quantised_by = self._quant_method()
        if self.quantised_by == "mxfp4":
            self._pair()

    def _check_folder(self, given: str) -> None:
        is_there = os.path.exists(self.path)  # Path.exists raises if a name is too long
        if not os.path.isdir(self.path):
            message = "is not a folder" if is_there else "there is no such folder"
            if _HUB_NAME.fullmatch(given) and not is_there:
                message += f"; hf download {given} --local-dir DIR fetches a model of that name, --model DIR exports it"
            raise Error(f"{self.path}: {message}", Code.IO)
        if (self.path / _ADAPTER).exists() and not any((self.path / n).exists() for n in (_SINGLE, _INDEX)):
            base = (self.json(_ADAPTER) or {}).get("base_model_name_or_path")
            of = f" for {base}" if isinstance(base, str) else ""
            hint = "merge_and_unload of peft merges it into its base model, and save_pretrained writes that"
            raise self.error(f"expected a whole model, got an adapter{of} ({_ADAPTER}): {hint}", Code.UNSUPPORTED)

    def error(self, message: str, code: Code = Code.INVALID) -> Error:
        return Error(f"{self.path}: {message}", code)

    # ---- files

    def json(self, name: str) -> dict[str, Any] | None:
        """Returns the object of a JSON file, or None if the file does not exist."""
        data = self.read(name, _LARGEST_JSON)
        if data is None:
            return None
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as e:
            raise Error(f"{self.path / name}: is not JSON: {str(e).splitlines()[0]}") from None
        if not isinstance(found, dict):
            raise Error(f"{self.path / name}: expected an object, got {type(found).__name__}")
        return found

    def text(self, name: str) -> str | None:
        """Returns the text of a UTF-8 file, or None if the file does not exist."""
        data = self.read(name, _LARGEST_JSON)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise Error(f"{self.path / name}: is not UTF-8") from None

    def read(self, name: str, largest: int) -> bytes | None:
        path = self.path / name
        if not path.exists():
            return None
        _check_regular(path)
        if path.stat().st_size > largest:
            raise Error(f"{path}: expected at most {largest} bytes, got {path.stat().st_size}")
        return path.read_bytes()

    def licence(self) -> str | None:
        """Returns the text of the first LICENSE or LICENCE file, or None."""
        names = sorted(p.name for p in self.path.iterdir() if p.name.upper().startswith(("LICENSE", "LICENCE")))
        data = self.read(names[0], _LARGEST_LICENCE) if names else None
        return None if data is None else data.decode("utf-8", "replace")

    def digest(self) -> str:
        """Returns the SHA-256 of config.json and the files of weights, in the order of their names."""
        found = hashlib.sha256()
        for path in sorted([self.path / "config.json", *self.files]):
            with path.open("rb") as f:
                while piece := f.read(1 << 22):
                    found.update(piece)
        return found.hexdigest()

    def check_unchanged(self) -> None:
        """Raises Error if a file of weights was written to since it was first read."""
        for file, state in self._states.items():
            if self._is_cut[file].value or _state(file) != state:
                raise _changed(file)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Runs check_unchanged after the block, also if the block raises Error, which a change may have caused."""
        try:
            yield
        except Error:
            self.check_unchanged()
            raise
        self.check_unchanged()

    # ---- weights

    def _weights(self) -> list[Path]:
        index = self.json(_INDEX)
        if index is not None:
            self._map = index.get("weight_map")
            return self._shards()
        self._map = None
        if (self.path / _SINGLE).exists():
            return [self.path / _SINGLE]
        for name in _PICKLES:
            if (self.path / name).exists():
                hint = "save_pretrained of a new transformers writes safetensors"
                raise self.error(f"expected the weights in {_SINGLE}, got {name}: {hint}", Code.UNSUPPORTED)
        raise self.error(f"has no {_SINGLE} and no {_INDEX}", Code.IO)

    def _shards(self) -> list[Path]:
        where = self.path / _INDEX
        if not isinstance(self._map, dict) or not all(isinstance(v, str) for v in self._map.values()):
            raise Error(f"{where}: weight_map must name a file for each tensor")
        names = sorted(set(self._map.values()))
        for name in names:
            if name in ("", ".", "..") or name != os.path.basename(name) or "\\" in name or "\0" in name:
                raise Error(f"{where}: expected names of files in the folder itself, got {name!r}")
        missing = [n for n in names if not (self.path / n).exists()]
        if missing:
            raise self.error(f"lacks {listed(missing)} of the {len(names)} files that {_INDEX} names", Code.IO)
        others = sorted({p.name for p in self.path.glob("model-*-of-*.safetensors")} - set(names))
        if others:
            raise self.error(f"has {listed(others)}, which {_INDEX} does not name")
        return [self.path / n for n in names]

    def _read_header(self, file: Path) -> None:
        for name, found in read_header(file).items():
            if name in self.tensors:
                raise self.error(f"tensor {name!r} is in {self.tensors[name].file.name} and in {file.name}")
            self.tensors[name] = self._parts[name] = found

    def _check_index(self) -> None:
        for name, file in (self._map or {}).items():
            if name not in self.tensors or self.tensors[name].file.name != file:
                raise self.error(f"{file} has no tensor {name!r}, which {_INDEX} places there")

    def _quant_method(self) -> str | None:
        config = self.config.get("quantization_config")
        return str(config.get("quant_method") if isinstance(config, dict) else config) if config else None

    def _pair(self) -> None:
        """Replaces each pair of blocks and scales by a tensor of MXFP4."""
        for blocks in [n for n in self.tensors if n.endswith(_BLOCKS)]:
            name = blocks.removesuffix(_BLOCKS)
            pair = [self.tensors.get(n) for n in (blocks, name + _SCALES)]
            if pair[1] is None or name in self.tensors:
                wrong = f"has no {name + _SCALES!r}" if pair[1] is None else f"has {name!r}"
                raise self.error(f"{wrong} beside {blocks!r}")
            try:
                shape = mxfp4.shape_of(*(t.shape for t in pair if t))
            except Error as e:
                raise self.error(f"{blocks!r} and its scales: {e}") from None
            if {t.dtype for t in pair if t} != {"U8"}:
                raise self.error(f"{blocks!r} and its scales: expected U8, got {pair[0].dtype} and {pair[1].dtype}")
            file = self.tensors.pop(blocks).file
            del self.tensors[name + _SCALES]
            self.tensors[name] = Stored(file, shape, mxfp4.DTYPE)

    def check_dtype(self, name: str) -> None:
        if self.tensors[name].dtype not in (*_FLOATS, mxfp4.DTYPE):
            known = ", ".join(_FLOATS)
            raise self.error(
                f"tensor {name!r}: expected one of {known}, got {self.tensors[name].dtype}", Code.UNSUPPORTED
            )

    def meta(self, name: str) -> torch.Tensor:
        """Returns a tensor without data, on the meta device."""
        t = self.tensors[name]
        return torch.empty(t.shape, dtype=_FLOATS.get(t.dtype, torch.bfloat16), device="meta")

    def load(self, name: str) -> Any:
        """Returns a mapped tensor, or mxfp4.Experts for MXFP4."""
        if self.tensors[name].dtype == mxfp4.DTYPE:
            return mxfp4.Experts(self._read, name + _BLOCKS, name + _SCALES)
        return self._read(name)

    def _read(self, name: str) -> torch.Tensor:
        t = self._parts[name]
        dtype, count = _READ[t.dtype], math.prod(t.shape)
        if not count:
            return torch.empty(t.shape, dtype=dtype)
        try:
            return torch.frombuffer(self._pages(t.file), dtype=dtype, count=count, offset=t.at).reshape(t.shape)
        except ValueError:  # the file is shorter
            raise _changed(t.file) from None
        except OSError as e:
            raise Error(f"{t.file}: cannot be mapped: {(e.strerror or str(e)).lower()}", Code.IO) from None

    def _pages(self, file: Path) -> Mapped:
        """Returns the mapping of a file, which tensors that are in use at the same time share."""
        found = self._mapped.get(file)
        if found is None:
            with file.open("rb") as f:
                found = Mapped(f.fileno(), self._states[file][0], self._is_cut[file])
            self._mapped[file] = found
        return found


def listed(names: list[str], shown: int = 3) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(map(repr, names[:shown])) + more


def _check_regular(path: Path) -> None:
    if not stat.S_ISREG(path.stat().st_mode):
        raise Error(f"{path}: is not a regular file", Code.IO)


def _state(path: Path) -> tuple[int, int]:
    _check_regular(path)
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _changed(file: Path) -> Error:
    return Error(f"{file}: was changed during the export: export again")


def read_header(file: Path) -> dict[str, Stored]:
    """Returns a safetensors file's tensors by name. Raises Error if the file is malformed."""
    with file.open("rb") as f:
        start = f.read(8)
        size = int.from_bytes(start, "little")
        start += f.read(min(size, _LARGEST_HEADER))
        _check_header(file, start, os.fstat(f.fileno()).st_size)
    entries = json.loads(start[8:])
    entries.pop("__metadata__", None)
    return {n: Stored(file, tuple(e["shape"]), e["dtype"], 8 + size + e["data_offsets"][0]) for n, e in entries.items()}


def _check_header(file: Path, start: bytes, size: int) -> None:
    """Raises Error if safetensors refuses the file. It reads a copy in memory that has the header and no data, because
    it maps files, and a process dies if it reads a mapped file that another process truncates."""
    from safetensors import SafetensorError, safe_open

    with open(os.memfd_create("safetensors header"), "wb") as copy:
        copy.write(start)
        copy.flush()
        copy.truncate(size)
        try:
            with safe_open(f"/proc/self/fd/{copy.fileno()}", "pt"):
                pass
        except SafetensorError as e:
            raise Error(f"{file}: is not a safetensors file: {str(e).splitlines()[0]}") from None
