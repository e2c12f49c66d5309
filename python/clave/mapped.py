"""Files that are mapped for reading. Where one is cut short meanwhile, reads find zeros and raise no SIGBUS."""

from __future__ import annotations

import ctypes as C
import mmap

from clave import _library as L


class Mapped(mmap.mmap):
    """The first `size` bytes of a file, not 0: private pages, which torch takes without a warning; nobody writes them.

    is_cut: is set when zeros replace missing bytes. Error: there is no memory, or the file is shorter.
    """

    def __new__(cls, descriptor: int, size: int, is_cut: C.c_bool) -> Mapped:
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0)
        self = super().__new__(cls, descriptor, size, flags, mmap.PROT_READ | mmap.PROT_WRITE)
        pages = C.addressof(C.c_char.from_buffer(self))
        # An attribute: those are destroyed before the pages are unmapped.
        given = (pages, size, C.byref(is_cut))
        self._guard = L.Handle("clave_guard_create", "clave_guard_destroy", *given, keep=(is_cut,))
        return self
