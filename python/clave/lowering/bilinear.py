"""Reads images between their elements: the elements around a position with their weights, and sums of such rows."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.arange import counting
from clave.lowering.registry import Context
from clave.lowering.reshape import reshape
from clave.lowering.steps import Operand, compute, step

D = schema.DType
CORNERS = 4  # elements around a position in an image


def neighbours(
    c: Context, t: schema.DType, position: Operand, shape: tuple[Int, ...], first: int, last: Int
) -> tuple[Slot, Slot]:
    """Returns the places of the elements below and above a position, counted from `first`, i64, and their weights:
    (*shape, 2) each. position: (*shape, 1), clamped to first ... last; NaN counts as `first`."""
    side = counting(c, 0, 2)
    inside = step("where", t, step("gt", t, position, first), position, first)
    inside = step("where", t, step("lt", t, inside, last), inside, last)
    low = step("floor", t, inside)
    part = step("sub", t, inside, low)
    weight = step("where", t, step("eq", D.I64, side, 1), part, step("sub", t, 1.0, part))
    place = step("sub", D.I64, step("minimum", D.I64, step("add", D.I64, low, side), last), first)
    pair = (*shape, 2)
    return c.tensor(compute(c, place, pair, D.I64)), c.tensor(compute(c, weight, pair, t))


def bags(
    c: Context,
    table: Slot,
    rows: Operand,
    shape: tuple[Int, ...],
    first: Operand,
    starts: tuple[Int, ...],
    weights: Operand | None = None,
) -> Slot:
    """Returns the sums of bags of rows, each row times its weight, or without weights the largest elements of the bags:
    (product of starts, dim).

    table: (n, dim). rows: indices of its rows, (*shape), i64. first: (*starts), where the bags begin in the flattened
    indices.
    """
    n, count = c.sizes.product(shape), c.sizes.product(starts)
    fields: dict[str, Any] = {"kind": schema.EmbeddingBagKind.max}
    if weights is not None:
        factors = compute(c, weights, shape, table.dtype)
        fields = {"kind": schema.EmbeddingBagKind.sum, "weights": c.tensor(reshape(c, factors, (n,)))}
    return c.emit(
        "EmbeddingBag",
        weight=table,
        indices=c.tensor(reshape(c, compute(c, rows, shape, D.I64), (n,))),
        offsets=c.tensor(reshape(c, compute(c, first, starts, D.I64), (count,))),
        include_last_offset=False,
        padding_idx=None,
        shape=(count, table.shape[1]),
        dtype=table.dtype,
        **fields,
    )
