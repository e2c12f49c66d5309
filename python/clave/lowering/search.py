"""Finds the places of values in sorted boundaries: bucketize, searchsorted."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import promote, slot_as

D = schema.DType


def _search(c: Context, boundaries: Tensor, x: Tensor | Scalar, right: bool, sorter: Tensor | None) -> Tensor:
    """Searches in the promoted dtype of both. The places are I32 or I64, as in torch."""
    dtype = promote(boundaries, x)
    dtype = D.U8 if dtype == D.BOOL else dtype
    values = x if hasattr(x, "shape") else Filled(x, dtype, ())
    shared = boundaries.rank == 1 and values.rank == 0
    shape = (1,) if shared or (values.rank == 0 and boundaries.rank == 0) else values.shape
    more = {} if sorter is None else {"sorter": slot_as(c, sorter, D.I64)}
    out = c.emit(
        "SearchSorted",
        boundaries=slot_as(c, boundaries, dtype),
        x=slot_as(c, reshape(c, values, shape), dtype),
        right=right,
        **more,
        shape=shape,
    )
    return reshape(c, out, c.shape())


@lower("aten.bucketize.Tensor")
def bucketize(c: Context, x: Tensor, boundaries: Tensor, _: bool, right: bool) -> Tensor:
    """Lowers bucketize, whose `right` has the same meaning as in searchsorted."""
    return _search(c, boundaries, x, right, None)


@lower("aten.bucketize.Scalar")
def bucketize_scalar(c: Context, x: Scalar, boundaries: Tensor, _: bool, right: bool) -> Tensor:
    return _search(c, boundaries, x, right, None)


@lower("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    c: Context, boundaries: Tensor, x: Tensor | Scalar, _: bool, right: bool, side: str | None, sorter: Any
) -> Tensor:
    return _search(c, boundaries, x, right or side == "right", sorter)
