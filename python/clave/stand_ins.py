"""Matrices that take no memory, for weights whose bytes are known already.

torch.export sees one as a tensor of zeros over pages that nobody writes but for its number; once the graph is lowered
`StandIns.stored` gives the bytes in its place, as clave.export(quantize=) has it.
"""

from __future__ import annotations

import mmap
import struct

import torch

from clave.encodings import Stored
from clave.errors import Code, Error


class StandIns:
    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}  # by the address of the stand-in
        self._keep: list[mmap.mmap] = []

    def make(self, shape: tuple[int, ...], dtype: torch.dtype, stored: Stored) -> torch.Tensor:
        """A tensor in the place of a matrix that is not empty. Error: there is no room for its pages."""
        elements = torch.Size(shape).numel()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        try:
            pages = mmap.mmap(-1, max(elements * dtype.itemsize, 4), flags)
        except OSError:
            raise Error("no room for its stand-in", Code.NO_MEMORY) from None
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)  # a page that is written stays one
        self._keep.append(pages)
        pages[:4] = struct.pack("<I", len(self._keep))  # no two are equal
        made = torch.frombuffer(pages, dtype=dtype, count=elements).reshape(shape)
        self._stored[made.data_ptr()] = stored
        return made

    def stored(self, _name: str, weight: torch.Tensor) -> Stored | None:
        """What a constant of a program that is being built becomes, once; as clave.export(quantize=) has it."""
        return self._stored.pop(weight.data_ptr(), None)

    @property
    def n_left(self) -> int:
        """Those that no product and no embedding reads: as constants they would be zeros."""
        return len(self._stored)
