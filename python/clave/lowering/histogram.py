"""Counts elements by bins: histc, histogram and bincount find the bin of each element, then sum into bins."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.nonzero import read_count, unknown_size
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.scatter import scatter_into
from clave.lowering.slice import slice_
from clave.lowering.steps import Operand, compute, convert, opmath, slot_as, step

D = schema.DType


def _flat(c: Context, x: Tensor) -> Slot:
    return c.tensor(reshape(c, x, (c.sizes.product(x.shape),)))


def _sum_into(c: Context, bins: Tensor, weights: Tensor, n: Int) -> Tensor:
    """Returns the sums of weights by bin, (n), in the weights' dtype. Elements of bin n do not count."""
    room = Filled(0, weights.dtype, (c.sizes.add(n, 1),))
    return slice_(c, scatter_into(c, room, 0, bins, weights, schema.ScatterKind.add), 0, 0, n, n)


def _ones(x: Tensor) -> Filled:
    return Filled(1, D.I64, x.shape)


def _extremes(c: Context, x: Slot) -> tuple[Operand, Operand]:
    """Returns the smallest and the largest element. If they are equal, returns them minus 1 and plus 1; without
    elements, 0 and 1."""
    if x.shape[0] == 0:
        return 0.0, 1.0
    low, high = (
        c.emit("Reduce", kind=kind, x=x, axes=[], keepdim=False, shape=(), dtype=x.dtype)
        for kind in (schema.ReduceKind.min, schema.ReduceKind.max)
    )
    equal = step("eq", x.dtype, low, high)
    apart = [step("where", x.dtype, equal, step(k, x.dtype, e, 1), e) for k, e in (("sub", low), ("add", high))]
    return tuple(compute(c, e, (), x.dtype) for e in apart)  # type: ignore[return-value]


def _range(c: Context, x: Slot, low: Scalar, high: Scalar) -> tuple[Operand, Operand]:
    """Returns the outer edges: the given ones or, if they are equal, those of the data."""
    if not all(isinstance(v, int | float) for v in (low, high)):
        raise Unsupported("a range known only at run time")
    if low == high:
        return _extremes(c, x)
    return convert(float(low), x.dtype), convert(float(high), x.dtype)


@lower("aten.histc.default")
def histc(c: Context, x: Tensor, n: int, low: Scalar, high: Scalar) -> Tensor:
    """Counts elements in [low, high] by bins of equal width. The last bin includes its upper edge. Each operation is
    rounded, as in torch."""
    x = _flat(c, slot_as(c, x, c.dtype()))
    t = x.dtype
    first, last = _range(c, x, low, high)
    place = step("div", t, step("mul", t, step("sub", t, x, first), n), step("sub", t, last, first))
    inside = step("logical_and", D.BOOL, step("ge", t, x, first), step("le", t, x, last))
    # Elements outside are moved to bin n before NaN and infinity are converted to integers.
    held = step("minimum", D.I64, step("cast", D.I64, step("where", t, inside, place, 0)), n - 1)
    bins = compute(c, step("where", D.I64, inside, held, n), x.shape, D.I64)
    return slot_as(c, _sum_into(c, bins, _ones(x), n), c.dtype())


def _search_bins(c: Context, x: Slot, edges: Slot, n: int) -> Slot:
    """Returns the bin of each element by the edges (n + 1), or n outside. The last bin includes its upper edge."""
    after = c.emit("SearchSorted", boundaries=edges, x=x, right=True, shape=x.shape, dtype=D.I64)
    first, last = (c.tensor(slice_(c, edges, 0, i, i + 1, 1)) for i in (0, n))
    inside = step("logical_and", D.BOOL, step("ge", x.dtype, x, first), step("le", x.dtype, x, last))
    held = step("minimum", D.I64, step("sub", D.I64, after, 1), n - 1)
    return compute(c, step("where", D.I64, inside, held, n), x.shape, D.I64)


def _histogram(c: Context, x: Slot, edges: Slot, n: int, weights: Tensor | None, density: bool) -> Tensor:
    dtype = c.dtype(0)
    bins = _search_bins(c, x, edges, n)
    weights = _ones(x) if weights is None else _flat(c, slot_as(c, weights, dtype))
    counts = slot_as(c, _sum_into(c, bins, weights, n), dtype)
    if not density:
        return counts
    total = c.emit(
        "Reduce", kind=schema.ReduceKind.sum, x=c.tensor(counts), axes=[], keepdim=True, shape=(1,), dtype=dtype
    )
    width = step("sub", dtype, slice_(c, edges, 0, 1, n + 1, n), slice_(c, edges, 0, 0, n, n))
    return compute(c, step("div", dtype, step("div", dtype, counts, total), width), (n,), dtype)


@lower("aten.histogram.bins_tensor")
def histogram_bins(c: Context, x: Tensor, edges: Tensor, weights: Tensor | None, density: bool) -> list[Tensor]:
    x, edges = _flat(c, x), c.tensor(edges)
    return [_histogram(c, x, edges, edges.shape[0] - 1, weights, density), edges]


@lower("aten.histogram.bin_ct")
def histogram_count(
    c: Context, x: Tensor, n: int, limits: list[float] | None, weights: Tensor | None, density: bool
) -> list[Tensor]:
    """Lowers histogram with n bins of equal width over the range, or over the data."""
    x = _flat(c, x)
    edges = _edges(c, *_range(c, x, *(limits or (0, 0))), n, x.dtype)
    return [_histogram(c, x, edges, n, weights, density), edges]


def _edges(c: Context, first: Operand, last: Operand, n: int, dtype: schema.DType) -> Slot:
    """Returns n + 1 edges at equal distances. Like linspace, computes each half from its own end."""
    t, i = opmath(dtype), counting(c, 0, n + 1)
    width = step("div", t, step("sub", t, last, first), n)
    if isinstance(first, int | float) and isinstance(last, int | float):
        width = (last - first) / n
    rising = step("add", t, first, step("mul", t, width, i))
    falling = step("sub", t, last, step("mul", t, width, step("sub", D.I64, n, i)))
    return c.tensor(compute(c, step("where", t, step("lt", D.I64, i, (n + 1) // 2), rising, falling), (n + 1,), dtype))


@lower("aten.bincount.default")
def bincount(c: Context, x: Tensor, weights: Tensor | None, least: Int) -> Tensor:
    """Returns how often each integer from 0 occurs in x, or the sum of its weights. The size is the largest integer
    plus 1, or `least` if that is larger."""
    x = slot_as(c, x, D.I64)
    symbol = unknown_size(c, c.fake().shape[0])
    if symbol is not None:
        floor = Filled(0, D.I64, (1,)) if least == 0 else Filled(least, D.I64, (1,))
        ends = compute(c, step("add", D.I64, x, 1), x.shape, D.I64)
        sizes = c.emit("Cat", xs=[ends, c.tensor(floor)], axis=0, shape=(c.sizes.add(x.shape[0], 1),), dtype=D.I64)
        most = c.emit("Reduce", kind=schema.ReduceKind.max, x=sizes, axes=[], keepdim=False, shape=(), dtype=D.I64)
        read_count(c, most, symbol, None)
    (n,) = c.shape()
    source: Any = _ones(x) if weights is None else slot_as(c, weights, c.dtype())
    return slot_as(c, scatter_into(c, Filled(0, source.dtype, (n,)), 0, x, source, schema.ScatterKind.add), c.dtype())
