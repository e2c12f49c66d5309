"""Replaces a part of a tensor: slice_scatter, select_scatter, diagonal_scatter, index_copy, index_put."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot, Val
from clave.lowering.arange import counting
from clave.lowering.index import index_slot, index_tensors, is_mask
from clave.lowering.nonzero import broadcast
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import expand, insert, permute, reshape
from clave.lowering.scatter import along, scatter_into
from clave.lowering.slice import bounded, in_memory_order
from clave.lowering.steps import compute, slot_as, step

D = schema.DType

_FEW = 64  # a scatter reads fewer indices as they are, also negative ones; more are made positive, as it may sort them


def slice_update(c: Context, x: Tensor, update: Tensor, axis: int, start: Int) -> Tensor:
    """Returns x with x[start : start + n] along axis replaced by the update, whose size there is n."""
    if update.shape == x.shape and start == 0:
        return slot_as(c, update, x.dtype)
    update = slot_as(c, update, x.dtype)
    return c.emit("SliceUpdate", x=c.tensor(x), update=update, axis=axis, start=start, shape=x.shape, dtype=x.dtype)


def index_copy(c: Context, x: Tensor, axis: int, index: Slot, source: Tensor) -> Tensor:
    source = slot_as(c, source, x.dtype)
    return c.emit("IndexCopy", x=c.tensor(x), axis=axis, index=index, source=source, shape=x.shape, dtype=x.dtype)


@lower("aten.slice_scatter.default")
def slice_scatter(
    c: Context, x: Tensor, update: Tensor, axis: int, start: Int | None, stop: Int | None, step: Int
) -> Tensor:
    axis %= x.rank
    first = _from_front(c, 0 if start is None else start, x.shape[axis])
    size = c.sizes.shape(c.node.args[1].meta["val"].shape)[axis]
    if size == 0:
        return x
    if step == 1:
        return slice_update(c, x, update, axis, first)
    return index_copy(c, x, axis, counting(c, first, size, step), update)


def _from_front(c: Context, i: Int, size: Int) -> Int:
    """Returns the start of a slice, counted from the front and clamped to the size, as in torch."""
    least = size if isinstance(size, int) else size.min or 0
    if isinstance(i, Val):
        return i if i.min is not None and i.min >= 0 else bounded(c, i, size)
    if -least <= i <= least:
        return c.sizes.add(size, i) if i < 0 else i
    return bounded(c, i, size)


@lower("aten.select_scatter.default")
def select_scatter(c: Context, x: Tensor, update: Tensor, axis: int, index: Int) -> Tensor:
    axis %= x.rank
    return slice_update(c, x, insert(c, update, axis), axis, _from_front(c, index, x.shape[axis]))


@lower("aten.index_copy.default")
def index_copied(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    if x.rank == 0:
        return slot_as(c, reshape(c, source, ()), x.dtype)
    axis %= x.rank
    if index.rank == 0:
        index = reshape(c, index, (1,))
    if source.rank == 0:
        source = reshape(c, source, (1,))
    return index_copy(c, x, axis, index_slot(c, index), source)


@lower("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(c: Context, x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    """Lowers x[i0, :, i2] = values to a scatter along the indexed dimensions, which are joined to one."""
    masked = _masked_put(c, x, indices, values, accumulate)
    if masked is not None:
        return masked
    axes, given = index_tensors(c, indices)
    if not axes:
        return compute(c, step("add", x.dtype, x, values)) if accumulate else expand(c, values, x.shape)
    front = axes[0] if axes == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [d for d in range(x.rank) if d not in axes]
    order = rest[:front] + axes + rest[front:]
    moved = permute(c, x, order)
    joined = (*moved.shape[:front], c.sizes.product(x.shape[a] for a in axes), *moved.shape[front + len(axes) :])
    picked = broadcast(*(t.shape for t in given))
    n = c.sizes.product(picked)
    wide = expand(c, values, (*joined[:front], *picked, *joined[front + 1 :]))
    source = reshape(c, wide, (*joined[:front], n, *joined[front + 1 :]))
    few = len(given) == 1 and isinstance(n, int) and n < _FEW
    row = (
        given[0]
        if few
        else c.emit("RavelIndex", indices=given, sizes=[x.shape[a] for a in axes], shape=picked, dtype=D.I64)
    )
    at = along(c, row, front, source.shape)
    kind = schema.ScatterKind.add if accumulate else schema.ScatterKind.assign
    out = scatter_into(c, reshape(c, moved, joined), front, at, source, kind, wrap=few)
    return permute(c, reshape(c, out, moved.shape), [order.index(d) for d in range(x.rank)])


def _masked_put(c: Context, x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool) -> Tensor | None:
    """Lowers x[:, mask] = values to a where if the values are equal along the mask. Returns None for other calls."""
    given = [(i, t) for i, t in enumerate(indices) if t is not None]
    if len(given) != 1 or not is_mask(given[0][1]):
        return None
    axis, mask = given[0]
    behind = x.rank - axis - mask.rank
    if values.rank > behind and values.shape[values.rank - behind - 1] != 1:
        return None
    shape = (1,) * axis + mask.shape + (1,) * behind
    lead = values.shape[: max(0, values.rank - behind - 1)]
    spread = (*lead, *(1,) * mask.rank, *values.shape[max(0, values.rank - behind) :])
    value: Any = slot_as(c, reshape(c, values, spread), x.dtype) if values.rank else reshape(c, values, ())
    value = step("add", x.dtype, x, value) if accumulate else value
    return compute(c, step("where", x.dtype, reshape(c, mask, shape), value, x), x.shape, x.dtype)


@lower("aten.diagonal_scatter.default")
def diagonal_scatter(c: Context, x: Tensor, source: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    rows, columns = axis1 % x.rank, axis2 % x.rank
    last = [*(d for d in range(x.rank) if d not in (rows, columns)), rows, columns]
    moved = permute(c, x, last)
    source = slot_as(c, source, x.dtype)
    out = compute(c, on_diagonal(c, source, offset, moved.shape, moved), moved.shape, x.dtype)
    return permute(c, out, [last.index(d) for d in range(x.rank)])


@lower("aten.diag_embed.default")
def diag_embed(c: Context, x: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    rank = x.rank + 1
    rows, columns = axis1 % rank, axis2 % rank
    last = [*(d for d in range(rank) if d not in (rows, columns)), rows, columns]
    shape = tuple(c.shape()[d] for d in last)
    out = compute(c, on_diagonal(c, c.tensor(x), offset, shape, 0), shape, x.dtype)
    return permute(c, out, [last.index(d) for d in range(rank)])


def on_diagonal(c: Context, x: Slot, offset: int, shape: tuple[Int, ...], other: Tensor | Scalar) -> Any:
    """Returns an expression (..., rows, columns) with x (..., n) on the diagonal and `other` elsewhere."""
    rows, columns = shape[-2:]
    axis = -2 if offset >= 0 else -1  # element k of x is in row (column) k
    missing = c.sizes.subtract(rows if offset >= 0 else columns, x.shape[-1])
    grown = (*x.shape[:-1], rows if offset >= 0 else columns)
    if missing != 0:
        zeros = [0] * (x.rank - 1)
        after = [*zeros, missing]
        x = c.emit(
            "Pad", x=x, before=[*zeros, 0], after=after, mode=schema.PadMode.constant, shape=grown, dtype=x.dtype
        )
    spread = reshape(c, x, (*grown, 1) if axis == -2 else (*grown[:-1], 1, grown[-1]))
    i = reshape(c, counting(c, offset, rows), (rows, 1))
    j = reshape(c, counting(c, 0, columns), (1, columns))
    return step("where", x.dtype, step("eq", D.I64, i, j), spread, other)


@lower("aten.as_strided_scatter.default")
def as_strided_scatter(
    c: Context, x: Tensor, source: Tensor, sizes: list[Int], strides: list[Int], offset: Int | None
) -> Tensor:
    flat, back = in_memory_order(c, x)
    n = c.sizes.product(x.shape)
    places = c.builder.view("AsStrided", counting(c, 0, n), sizes, shape=sizes, strides=strides, offset=offset or 0)
    count = (c.sizes.product(sizes),)
    out = scatter_into(c, flat, 0, reshape(c, places, count), reshape(c, source, count))
    return back(out)
