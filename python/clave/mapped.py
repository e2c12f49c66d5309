"""Maps files for reading. If a file is truncated later, reads find zeros and raise no SIGBUS."""

from __future__ import annotations

import ctypes as C
import mmap

from clave import _library as L


class Mapped(mmap.mmap):
    """The first `size` bytes of a file, at least 1. The pages are private and writable, because torch warns of others,
    but nobody writes to them.

    is_cut: set when zeros replace missing bytes. Raises ValueError if the file is shorter, and OSError or Error if it
    cannot be mapped.
    """

    def __new__(cls, descriptor: int, size: int, is_cut: C.c_bool) -> Mapped:
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        self = super().__new__(cls, descriptor, size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        pages = C.addressof(C.c_char.from_buffer(self))
        # Kept as an attribute, because attributes are destroyed before the pages are unmapped.
        given = (pages, size, C.byref(is_cut))
        self._guard = L.Handle("clave_guard_create", "clave_guard_destroy", *given, keep=(is_cut,))
        return self
