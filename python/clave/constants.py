"""Finds equal tensors, and tensors changed since the export, among those that a program shares with its module.

In a large program a weight is identified by a few of its elements, and is first read whole when the program is saved.
So weights that are mapped from a file stay on disk.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch

from clave.errors import Error
from clave.private import version_of

_RUNS, _RUN = 32, 64  # number of runs that are sampled of a tensor, and elements per run

# Called after each tensor is sampled, to release the pages that were read into memory.
after_sampling: list[Callable[[], None]] = []


def fingerprint(data: torch.Tensor) -> bytes:
    """Returns the bytes of samples of a contiguous tensor: runs at equal distances, from the first to the last element.

    It samples runs because the system reads sixteen pages or more of a mapped file around each access.
    """
    flat = data.reshape(-1)
    if flat.numel() > _RUNS * _RUN:
        last = flat.numel() - _RUN
        flat = torch.cat([flat[at : at + _RUN] for at in (last * i // (_RUNS - 1) for i in range(_RUNS))])
    found = flat.view(torch.uint8).numpy().tobytes()
    for release in after_sampling:
        release()
    return found


def checksum(data: torch.Tensor) -> int:
    """Returns the CRC-32 of all bytes of a contiguous tensor."""
    return zlib.crc32(data.reshape(-1).view(torch.uint8).numpy()) if data.numel() else 0


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if two contiguous tensors of one dtype and shape have equal bytes: NaN equals the same NaN, -0 is not 0."""
    return not a.numel() or torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


WHOLE_BYTES = 1 << 29  # constants of a program up to this size are compared whole


def snapshots_of(names: list[str], tensors: list[torch.Tensor]) -> list[Snapshot]:
    """Records the present contents of a program's constants."""
    summarise = checksum if sum(t.nbytes for t in tensors) <= WHOLE_BYTES else fingerprint
    return [Snapshot(name, data, summarise) for name, data in zip(names, tensors, strict=True)]


class Snapshot:
    """A constant as it was at export. data: contiguous, in host memory; the module's own tensor if that is both.
    summarise: a function whose result changes with the data when torch does not count the change."""

    def __init__(self, name: str, data: torch.Tensor, summarise: Callable[[torch.Tensor], object]) -> None:
        self.name, self.data, self._summarise = name, data, summarise
        self._version, self._address = version_of(data), data.data_ptr()
        self._summary = summarise(data)

    def check(self) -> None:
        """Raises Error if the constant was changed since: in place by torch, or so that `summarise` differs."""
        is_moved = self.data.data_ptr() != self._address  # share_memory() moves it; the program has the old address
        if is_moved or version_of(self.data) != self._version or self._summarise(self.data) != self._summary:
            raise Error(
                f"{self.name!r} was changed after clave.export took it: export again, or save before the change"
            )
