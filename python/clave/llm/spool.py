"""A nameless file of weights as a program will have them, written one after the other and then mapped.

What a program is made of must lie in memory, and a model may be larger than that: so its weights lie in a file beside
the program to be, and `released` lets go of the pages that are read meanwhile.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clave.constants import after_looking
from clave.errors import Code, Error

_ALIGNMENT = 64
_EVERY_S = 0.01  # how often pages are let go


class Spool:
    """size: bytes that will be written, for a check that they have room. Errors: of writing."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        free = shutil.disk_usage(folder).free
        if size > free:
            raise Error(f"{folder}: the weights take {size >> 20} MiB, and {free >> 20} are free", Code.IO)
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (it lives as long as this)
        self._size = 0
        self._pages: mmap.mmap | None = None

    def begin(self) -> int:
        """Where what is written next begins; parts that follow each other without a gap can become one."""
        self.write(b"\0" * (-self._size % _ALIGNMENT))
        return self._size

    def write(self, data: Any) -> None:
        try:
            self._file.write(data)
        except OSError as e:
            raise Error(f"{self._folder}: {(e.strerror or str(e)).lower()}", Code.IO) from None
        self._size += memoryview(data).nbytes

    def write_tensor(self, data: torch.Tensor) -> None:
        self.write(data.contiguous().reshape(-1).view(torch.uint8).numpy())

    def map(self) -> None:
        """Ends the writing. Private pages, which torch takes without a warning; nobody writes them."""
        self.write(b"\0" * _ALIGNMENT)  # a file that is empty cannot be mapped
        self._file.flush()
        self._pages = mmap.mmap(self._file.fileno(), self._size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)

    def tensor(self, at: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(self._pages, dtype=dtype, count=torch.Size(shape).numel(), offset=at).reshape(shape)

    def rows(self, at: int, shape: tuple[int, int]) -> np.ndarray:
        """(rows, bytes)"""
        return np.frombuffer(self._pages, np.uint8, shape[0] * shape[1], at).reshape(shape)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Pages that were read leave the memory every few milliseconds, and after each tensor that is looked at; they
        are read again where that is needed."""
        over = threading.Event()
        thread = threading.Thread(target=self._release_often, args=(over,), daemon=True)
        thread.start()
        after_looking.append(self._release)
        try:
            yield
        finally:
            after_looking.remove(self._release)
            over.set()
            thread.join()
            self._release()

    def _release(self) -> None:
        if self._pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._pages.madvise(mmap.MADV_DONTNEED)

    def _release_often(self, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            self._release()


def beside(path: str | os.PathLike[str]) -> Path:
    """The folder in which a program is to be written. Error: there is none."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise Error(f"{folder}: there is no such folder", Code.IO)
    return folder
