"""softmax and log_softmax along a dimension."""

from __future__ import annotations

from typing import Any

from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import slot_as


@lower(
    "aten._softmax.default",
    "aten.softmax.int",
    "aten._log_softmax.default",
    "aten.log_softmax.int",
)
def softmax(c: Context, x: Tensor, axis: int, _: Any) -> Tensor:
    """x is cast to the result's dtype first (dtype= of softmax, half_to_float of _softmax)."""
    log = "log" in c.node.target._schema.name
    if x.rank == 0:
        return _of_one(c, x, log)
    return c.emit("Softmax", x=slot_as(c, x, c.dtype()), axis=axis % x.rank, log=log)


def _of_one(c: Context, x: Tensor, log: bool) -> Tensor:
    row = c.tensor(reshape(c, slot_as(c, x, c.dtype()), (1,)))
    return reshape(c, c.emit("Softmax", x=row, axis=0, log=log, shape=(1,)), ())
