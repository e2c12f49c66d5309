"""Tensors that a program takes from a module without a copy: which are equal, and whether one changed since.

A weight is never read whole before it is saved: a few elements tell it from others. So weights that are mapped from a
file stay there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from clave.errors import Error
from clave.private import version_of

_RUNS, _RUN = 32, 64  # where a tensor is looked at, and how many elements each

# Called after each tensor that is looked at: lets go of what that brought into memory.
after_looking: list[Callable[[], None]] = []


def fingerprint(data: torch.Tensor) -> bytes:
    """The bytes of elements all over a contiguous tensor: runs at equal distances, from the first to the last. Runs,
    since the system brings in a mapped file by sixteen pages or more around each that is read."""
    flat = data.reshape(-1)
    if flat.numel() > _RUNS * _RUN:
        last = flat.numel() - _RUN
        flat = torch.cat([flat[at : at + _RUN] for at in (last * i // (_RUNS - 1) for i in range(_RUNS))])
    found = flat.view(torch.uint8).numpy().tobytes()
    for release in after_looking:
        release()
    return found


def same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Of two contiguous tensors of one dtype and shape: NaN is equal to the same NaN, -0 is not 0."""
    return not a.numel() or torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


class Taken:
    """A constant as it was at export. data: contiguous, in the host's memory, the module's own where that is both."""

    def __init__(self, name: str, data: torch.Tensor) -> None:
        self.name, self.data = name, data
        self._version = version_of(data)
        self._fingerprint = fingerprint(data)

    def check(self) -> None:
        """Error if it was changed since: in place by torch, or so that its fingerprint is another."""
        if version_of(self.data) != self._version or fingerprint(self.data) != self._fingerprint:
            raise Error(
                f"{self.name!r} was changed after clave.export took it: export again, or save before the change"
            )
