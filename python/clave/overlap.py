"""Checks inputs that a module changes in place before a run: their memory must be writable and shared with nothing.

A session computes every result from the original inputs, then writes the new values of those that change. The module
itself computes the same, unless a changed input shares memory with another input or with itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from clave import _tensors
from clave.errors import Error

# Steps of the search for a byte that two views share. A pair that needs more steps counts as sharing one.
_WORK = 100_000
# A view with more elements counts as overlapping itself unless its strides exclude it.
_ELEMENTS = 1 << 20


class _Bytes:
    """Memory as numpy's array interface describes it. Only its addresses are used, never its contents."""

    def __init__(self, address: int, size: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "typestr": f"|V{size}",
            "shape": shape,
            "strides": strides,
            "version": 3,
        }


def _memory_of(x: Any) -> np.ndarray | None:
    """Returns the memory of a dense tensor or an array, or None for anything else and if there are no elements."""
    if not _tensors.is_torch(x):
        return x if isinstance(x, np.ndarray) and x.size else None
    try:
        if _tensors.why_not_dense(x) is not None or not x.numel():
            return None
        size = x.element_size()
        return np.asarray(_Bytes(x.data_ptr(), size, tuple(x.shape), tuple(s * size for s in x.stride())))
    except Exception:  # a tensor of a trace or a transform, which is refused when it is read
        return None


def _share(a: np.ndarray, b: np.ndarray) -> bool:
    try:
        return bool(np.shares_memory(a, b, max_work=_WORK))
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(x: np.ndarray) -> bool:
    """True if two elements share a byte."""
    reach, sizes = x.itemsize, sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1)
    is_disjoint = True
    for stride, n in sizes:
        is_disjoint = is_disjoint and stride >= reach
        reach += stride * (n - 1)
    if is_disjoint:
        return False
    if x.size > _ELEMENTS:
        return True
    places = np.zeros(1, np.int64)
    for stride, n in sizes:
        places = np.add.outer(places, np.arange(n) * stride).reshape(-1)
    return bool((np.diff(np.sort(places)) < x.itemsize).any())


def check_disjoint(names: list[str], given: dict[int, Any], changed: Iterable[int]) -> None:
    """Raises Error if one of the inputs `changed` shares memory with another input or with itself. given: inputs by
    position."""
    changed = list(changed)
    if not changed:
        return
    memory = {i: m for i, x in given.items() if (m := _memory_of(x)) is not None}
    for i in (i for i in changed if i in memory):
        if _overlaps_itself(memory[i]):
            raise Error(
                f"input {names[i]!r} is changed in place: expected elements that are apart in memory, got shape "
                f"{tuple(memory[i].shape)} with strides of {memory[i].strides} bytes; pass a copy"
            )
        other = next((j for j in memory if j != i and _share(memory[i], memory[j])), None)
        if other is not None:
            raise Error(
                f"input {names[i]!r} is changed in place: expected memory of its own, got memory that it shares with "
                f"input {names[other]!r}; pass a copy of one"
            )


def check_writable(name: str, x: Any) -> None:
    """Raises Error if the new value of an input cannot be written into it."""
    reason = _why_not(x)
    if reason:
        raise Error(f"input {name!r} is changed in place, which it does not allow: {reason}")


def _why_not(x: Any) -> str:
    if _tensors.is_torch(x):
        torch = sys.modules["torch"]
        if x.is_inference() and not torch.is_inference_mode_enabled():
            return "expected a clone or a call in torch.inference_mode, got a tensor made in that mode"
        return ""
    if not isinstance(x, np.ndarray):
        return f"expected a torch tensor or a numpy array, got {type(x).__name__}"
    return "" if x.flags.writeable else "the array is read-only"
