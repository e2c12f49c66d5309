"""Distinct elements: neighbours that differ, in the original order (unique_consecutive) or sorted (unique).

Their number depends on the data.
"""

from __future__ import annotations

from clave import schema
from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.nonzero import positions, unknown_size
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import permute, reshape
from clave.lowering.scatter import scatter_into
from clave.lowering.slice import select, slice_
from clave.lowering.sort import ordered
from clave.lowering.steps import compute, step

D = schema.DType
K = schema.ScatterKind
MAX_COLUMNS = 64  # rows are sorted column by column


def _begins(c: Context, rows: Slot) -> Slot:
    """Returns (n), BOOL: true for a row (n, m) or an element (n) that differs from the one before it."""
    n, *more = rows.shape
    index = c.tensor(compute(c, step("maximum", D.I64, counting(c, -1, n), 0), (n,), D.I64))
    before = c.emit("IndexSelect", x=rows, axis=0, index=index, shape=rows.shape, dtype=rows.dtype)
    differs = c.tensor(compute(c, step("ne", rows.dtype, rows, before), rows.shape, D.BOOL))
    if more:
        kind = schema.ReduceKind.any
        differs = c.emit("Reduce", kind=kind, x=differs, axes=[1], keepdim=False, shape=(n,), dtype=D.BOOL)
    first = step("eq", D.I64, counting(c, 0, n), 0)
    return c.tensor(compute(c, step("logical_or", D.BOOL, first, differs), (n,), D.BOOL))


def _distinct(c: Context, rows: Slot, places: Slot | None, axis: int = 0) -> list[Tensor | None]:
    """Returns the first row of each run of equal rows (count, m), the run of each row (n), and the lengths of the runs
    (count).

    places: the indices of the rows before they were sorted. axis: the axis of the call's result with size `count`.
    """
    n = rows.shape[0]
    begins = _begins(c, rows)
    found, count = positions(c, begins, unknown_size(c, c.fake(0).shape[axis]))
    index = c.tensor(select(c, found, 1, 0))
    shape = (count, *rows.shape[1:])
    out = c.emit("IndexSelect", x=rows, axis=0, index=index, shape=shape, dtype=rows.dtype)
    numbers = c.tensor(compute(c, step("cast", D.I64, begins), (n,), D.I64))
    kind = schema.CumulateKind.sum
    totals = c.emit("Cumulate", kind=kind, x=numbers, axis=0, shape=(n,), dtype=D.I64)
    run = c.tensor(compute(c, step("sub", D.I64, totals, 1), (n,), D.I64))
    inverse: Tensor = run if places is None else scatter_into(c, Filled(0, D.I64, (n,)), 0, places, run)
    lengths = None
    if c.used(2):
        each = scatter_into(c, Filled(0, D.I64, (n,)), 0, run, Filled(1, D.I64, (n,)), K.add)
        lengths = slice_(c, each, 0, 0, count, count)
    return [out, inverse, lengths]


def _whole(c: Context, x: Tensor, found: list[Tensor | None]) -> list[Tensor | None]:
    out, inverse, lengths = found
    return [out, reshape(c, inverse, x.shape), lengths]


def _rows(c: Context, x: Tensor, axis: int) -> Slot:
    """Returns x as rows (n, m). n is its size along axis."""
    rest = [d for d in range(x.rank) if d != axis]
    permuted = permute(c, x, [axis, *rest])
    return c.tensor(reshape(c, permuted, (x.shape[axis], c.sizes.product(permuted.shape[1:]))))


def _back(c: Context, x: Tensor, axis: int, found: list[Tensor | None]) -> list[Tensor | None]:
    """Returns the rows in x's order of dimensions, and the other results."""
    rest = [d for d in range(x.rank) if d != axis]
    out = found[0]
    assert out is not None
    permuted = reshape(c, out, (out.shape[0], *(x.shape[d] for d in rest)))
    return [permute(c, permuted, [[axis, *rest].index(d) for d in range(x.rank)]), *found[1:]]


@lower("aten._unique2.default")
def unique(c: Context, x: Tensor, *_: bool) -> list[Tensor | None]:
    flat = reshape(c, x, (c.sizes.product(x.shape),))
    return _whole(c, x, _distinct(c, *ordered(c, flat, 0, places=True)))


@lower("aten.unique_consecutive.default")
def unique_consecutive(c: Context, x: Tensor, _: bool, __: bool, axis: int | None) -> list[Tensor | None]:
    if axis is None:
        flat = c.tensor(reshape(c, x, (c.sizes.product(x.shape),)))
        return _whole(c, x, _distinct(c, flat, None))
    axis %= x.rank
    return _back(c, x, axis, _distinct(c, _rows(c, x, axis), None, axis))


@lower("aten.unique_dim.default")
def unique_dim(c: Context, x: Tensor, axis: int, *_: bool) -> list[Tensor | None]:
    """Sorts rows by their first elements, then by their second ones, and so on."""
    axis %= x.rank
    rows = _rows(c, x, axis)
    n, m = rows.shape
    if not isinstance(m, int) or m > MAX_COLUMNS:
        raise Unsupported(f"parts of more than {MAX_COLUMNS} elements, or of an unknown number")
    places: Slot = counting(c, 0, n)
    for column in reversed(range(m)):
        key = c.emit(
            "IndexSelect", x=c.tensor(select(c, rows, 1, column)), axis=0, index=places, shape=(n,), dtype=rows.dtype
        )
        order = ordered(c, key, 0)[1]
        assert order is not None
        places = c.emit("IndexSelect", x=places, axis=0, index=order, shape=(n,), dtype=D.I64)
    rows = c.emit("IndexSelect", x=rows, axis=0, index=places, shape=(n, m), dtype=rows.dtype)
    return _back(c, x, axis, _distinct(c, rows, places, axis))
