"""Stand-ins: matrices that use no memory, in place of weights whose encoded bytes are known.

torch.export sees a tensor of zeros over pages of which only the first is written, with the stand-in's number. When the
graph is lowered, `StandIns.stored` returns the bytes, as the function for clave.export(quantize=).
"""

from __future__ import annotations

import mmap
import struct

import torch

from clave.encodings import Stored
from clave.errors import Code, Error


class StandIns:
    """The stand-ins of one export."""

    def __init__(self) -> None:
        self._stored: dict[int, Stored] = {}  # by the address of a stand-in
        self._keep: list[mmap.mmap] = []

    def make(self, shape: tuple[int, ...], dtype: torch.dtype, stored: Stored) -> torch.Tensor:
        """Returns a stand-in for a matrix that is not empty. Raises Error if its pages cannot be mapped."""
        elements = torch.Size(shape).numel()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        try:
            pages = mmap.mmap(-1, max(elements * dtype.itemsize, 4), flags)
        except OSError:
            raise Error("no address space for its stand-in", Code.NO_MEMORY) from None
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages.madvise(mmap.MADV_NOHUGEPAGE)  # writing uses one small page
        self._keep.append(pages)
        pages[:4] = struct.pack("<I", len(self._keep))  # no two are equal
        made = torch.frombuffer(pages, dtype=dtype, count=elements).reshape(shape)
        self._stored[made.data_ptr()] = stored
        return made

    def stored(self, _name: str, weight: torch.Tensor) -> Stored | None:
        """Returns the bytes of a stand-in, once, or None for other weights. A function for clave.export(quantize=)."""
        return self._stored.pop(weight.data_ptr(), None)

    @property
    def n_left(self) -> int:
        """Number of stand-ins that no product and no embedding reads. As constants they would be zeros."""
        return len(self._stored)
