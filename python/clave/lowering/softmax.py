"""Lowers softmax and log_softmax along a dimension."""

from __future__ import annotations

import math
from typing import Any

from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import compute, slot_as, step


@lower(
    "aten._softmax.default",
    "aten.softmax.int",
    "aten._log_softmax.default",
    "aten.log_softmax.int",
)
def softmax(c: Context, x: Tensor, axis: int, _: Any) -> Tensor:
    """Lowers softmax. Casts x to the result's dtype first (dtype= of softmax, half_to_float of _softmax)."""
    log = "log" in c.op()
    if x.rank == 0:
        return _of_one(c, x, log)
    return c.emit("Softmax", x=slot_as(c, x, c.dtype()), axis=axis % x.rank, log=log)


@lower("aten._masked_softmax.default")
def masked_softmax(c: Context, x: Tensor, mask: Tensor, axis: int | None, kind: int | None) -> Tensor:
    """Lowers softmax without the elements where the mask is true. kind 0: mask (L, L), 1: (batch, L), 2: x's shape."""
    axis = x.rank - 1 if axis is None else axis % x.rank
    if kind == 1 and mask.rank == 2 and x.rank > 2:
        mask = reshape(c, mask, (mask.shape[0], *(1,) * (x.rank - 2), mask.shape[1]))
    shown = compute(c, step("where", c.dtype(), mask, -math.inf, x))
    return c.emit("Softmax", x=c.tensor(shown), axis=axis, log=False)


def _of_one(c: Context, x: Tensor, log: bool) -> Tensor:
    row = c.tensor(reshape(c, slot_as(c, x, c.dtype()), (1,)))
    return reshape(c, c.emit("Softmax", x=row, axis=0, log=log, shape=(1,)), ())
