"""A nameless file of weights in a program's types and encodings, which is written in order and then mapped.

The exporter needs its constants in memory, and a model may be larger than that. So its weights are stored in a file in
the folder of the program, and `released` frees the pages that were read.
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

from clave.constants import after_sampling
from clave.errors import Code, Error

_ALIGNMENT = 64
_EVERY_S = 0.01  # seconds between releases of pages


class Spool:
    """The file. size: bytes that will be written. Raises Error if the disk has less free space, or if writing fails."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        free = shutil.disk_usage(folder).free
        if size > free:
            raise Error(f"{folder}: the weights need {size >> 20} MiB, but only {free >> 20} are free", Code.IO)
        self._file: Any = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  (closed with this object)
        self._size = 0
        self._pages: mmap.mmap | None = None

    def begin(self) -> int:
        """Aligns the file and returns its size, where the next tensor begins. A tensor may be written in parts."""
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
        """Ends the writing and maps the file. The pages are private and writable, because torch warns about read-only
        pages, but nothing writes to them."""
        self.write(b"\0" * _ALIGNMENT)  # an empty file cannot be mapped
        self._file.flush()
        self._pages = mmap.mmap(self._file.fileno(), self._size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)

    def tensor(self, at: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.frombuffer(self._pages, dtype=dtype, count=torch.Size(shape).numel(), offset=at).reshape(shape)

    def rows(self, at: int, shape: tuple[int, int]) -> np.ndarray:
        """Returns (rows, bytes of a row), uint8."""
        return np.frombuffer(self._pages, np.uint8, shape[0] * shape[1], at).reshape(shape)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within the block, frees pages that were read, every few milliseconds and after each tensor that is sampled.
        They are read again when they are needed."""
        over = threading.Event()
        thread = threading.Thread(target=self._release_often, args=(over,), daemon=True)
        thread.start()
        after_sampling.append(self._release)
        try:
            yield
        finally:
            after_sampling.remove(self._release)
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
    """Returns the folder of a file that will be written. Raises Error if it does not exist."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise Error(f"{folder}: there is no such folder", Code.IO)
    return folder
