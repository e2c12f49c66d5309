"""Sizes that depend on data: nonzero, masks as index, masked_select, repeat_interleave.

An op writes a tensor of the largest possible size, and a count. `Item` reads the count, and a slice of that size is the
result. Instructions after it are planned when the count is known.
"""

from __future__ import annotations

from typing import Any

import sympy

from clave import schema
from clave.builder import Int, Slot, Val
from clave.lowering.arange import counting
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import expand, reshape
from clave.lowering.slice import select, slice_
from clave.lowering.steps import compute, slot_as, step
from clave.sizes import expression

D = schema.DType


def unknown_size(c: Context, size: Any) -> sympy.Symbol | None:
    """Returns torch's symbol of a size that depends on data, or None if the size is known."""
    e = expression(size)
    return e if isinstance(e, sympy.Symbol) and e not in c.sizes.known else None


def read_count(c: Context, count: Slot, symbol: sympy.Symbol | None, limit: Int | None) -> Val:
    """Reads the number in a tensor, and binds it to the size that torch calls `symbol`."""
    value = c.builder.val("int", c.node.name, 0) if symbol is None else c.sizes.bind(symbol)
    if isinstance(limit, int):
        value.min, value.max = value.min or 0, limit if value.max is None else min(value.max, limit)
    c.builder.emit("Item", x=count, out=value)
    return value


def padded_positions(c: Context, x: Tensor) -> tuple[Slot, Slot]:
    """Returns the coordinates of nonzero elements, followed by zeros, (numel, rank), and their number."""
    count = c.builder.temp(D.I64, ())
    numel = c.sizes.product(x.shape)
    return c.emit("Nonzero", x=c.tensor(x), shape=(numel, x.rank), dtype=D.I64, count=count), count


def positions(c: Context, x: Tensor, symbol: sympy.Symbol | None) -> tuple[Tensor, Val]:
    """Returns the coordinates of nonzero elements, (count, rank), and the count."""
    padded, count = padded_positions(c, x)
    n = read_count(c, count, symbol, padded.shape[0])
    return slice_(c, padded, 0, 0, n, n), n


def columns(c: Context, mask: Tensor, symbol: sympy.Symbol | None) -> list[Slot]:
    """Returns the index tensors (count) of the elements that a mask selects, one for each dimension of the mask."""
    found, _ = positions(c, mask, symbol)
    return [c.tensor(select(c, found, 1, d)) for d in range(mask.rank)]


@lower("aten.nonzero.default")
def nonzero(c: Context, x: Tensor) -> Tensor:
    return positions(c, x, unknown_size(c, c.fake().shape[0]))[0]


@lower("aten.nonzero_static.default")
def nonzero_static(c: Context, x: Tensor, size: Int, fill: int) -> Tensor:
    """Returns the first `size` positions. Rows after the last position are filled."""
    found, count = padded_positions(c, x)
    room = c.tensor(Filled(fill, D.I64, (size, x.rank)))
    longer = c.emit("Cat", xs=[found, room], axis=0, shape=(c.sizes.add(found.shape[0], size), x.rank), dtype=D.I64)
    row = reshape(c, counting(c, 0, size), (size, 1))
    kept = slice_(c, longer, 0, 0, size, size)
    return compute(c, step("where", D.I64, step("lt", D.I64, row, count), kept, fill))


@lower("aten.masked_select.default")
def masked_select(c: Context, x: Tensor, mask: Tensor) -> Tensor:
    shape = broadcast(x.shape, mask.shape)
    n = c.sizes.product(shape)
    symbol = unknown_size(c, c.fake().shape[0])
    if symbol is not None and shape != x.shape:  # torch assumes x's own size as the upper bound
        c.sizes.void.add(sympy.Le(symbol, expression(c.node.args[0].meta["val"].numel())))
        c.sizes.ranges.pop(symbol, None)
    index = columns(c, reshape(c, expand(c, mask, shape), (n,)), symbol)[0]
    flat = c.tensor(reshape(c, expand(c, x, shape), (n,)))
    return c.emit("IndexSelect", x=flat, axis=0, index=index)


def broadcast(*shapes: tuple[Int, ...]) -> tuple[Int, ...]:
    """Returns the common shape of shapes that broadcast."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*padded, strict=True))


@lower("aten.repeat_interleave.Tensor")
def repeat_interleave(c: Context, repeats: Tensor, _: Int | None) -> Tensor:
    """Returns each i repeats[i] times: out[k] is the number of running totals of repeats that are <= k."""
    (n,) = repeats.shape
    if n == 0:
        return Filled(0, c.dtype(), c.shape())
    counts = slot_as(c, repeats, D.I64)
    totals = running_totals(c, counts)
    symbol = unknown_size(c, c.fake().shape[0])
    if symbol is not None:
        read_count(c, total(c, counts), symbol, None)
    return slot_as(c, repeated(c, totals, c.shape()[0]), c.dtype())


def total(c: Context, counts: Slot) -> Slot:
    """Returns the sum of counts (n), i64, and 0 without counts."""
    fields = {"kind": schema.ReduceKind.sum, "axes": [0], "keepdim": False}
    return c.emit("Reduce", x=counts, **fields, shape=(), dtype=D.I64)


def running_totals(c: Context, counts: Slot) -> Slot:
    """Returns the running sums of counts (n), i64."""
    return c.emit("Cumulate", kind=schema.CumulateKind.sum, x=counts, axis=0, shape=counts.shape, dtype=D.I64)


def repeated(c: Context, totals: Slot, size: Int) -> Slot:
    """Returns (size), i64: each i as often as the running totals (n) increase at i. size: the last of the totals."""
    room = c.sizes.add(size, 1)
    marks = c.emit(
        "Scatter",
        kind=schema.ScatterKind.add,
        x=c.tensor(Filled(0, D.I64, (room,))),
        axis=0,
        index=totals,
        source=c.tensor(Filled(1, D.I64, totals.shape)),
        shape=(room,),
        dtype=D.I64,
    )
    below = c.emit("Cumulate", kind=schema.CumulateKind.sum, x=marks, axis=0, shape=(room,), dtype=D.I64)
    return c.tensor(slice_(c, below, 0, 0, size, size))
