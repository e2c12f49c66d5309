"""Joins tensors: cat and stack."""

from __future__ import annotations

import functools

from clave.builder import Slot
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert
from clave.lowering.steps import slot_as


def join(c: Context, xs: list[Tensor], axis: int) -> Tensor:
    parts = [slot_as(c, x, c.dtype()) for x in xs]
    return parts[0] if len(parts) == 1 else c.emit("Cat", xs=parts, axis=axis)


def joined(c: Context, parts: list[Tensor], axis: int) -> Slot:
    """Joins tensors inside of another op, in their own dtype. The size is the sum of theirs."""
    if len(parts) == 1:
        return c.tensor(parts[0])
    shape = list(parts[0].shape)
    shape[axis] = functools.reduce(c.sizes.add, (x.shape[axis] for x in parts))
    return c.emit("Cat", xs=[c.tensor(x) for x in parts], axis=axis, shape=tuple(shape), dtype=parts[0].dtype)


@lower("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(c: Context, xs: list[Tensor], axis: int) -> Tensor:
    rank = len(c.shape())
    kept = [x for x in xs if x.rank == rank]  # torch ignores a tensor of shape (0,) among others
    return join(c, kept, axis % rank)


@lower("aten.stack.default")
def stack(c: Context, xs: list[Tensor], axis: int) -> Tensor:
    axis %= len(c.shape())
    return join(c, [insert(c, x, axis) for x in xs], axis)
