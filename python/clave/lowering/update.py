"""A tensor with a part of it replaced: slice_scatter, select_scatter, index_copy, index_put."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.index import index_slot
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import expand, insert, permute, reshape
from clave.lowering.steps import compute, slot_as, step

D = schema.DType


def slice_update(c: Context, x: Tensor, update: Tensor, axis: int, start: Int) -> Tensor:
    """x with x[start : start + n] along axis replaced, n = update's size there."""
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
    if step == 1:
        return slice_update(c, x, update, axis, first)
    return index_copy(c, x, axis, counting(c, first, size, step), update)


def _from_front(c: Context, i: Int, size: Int) -> Int:
    """A literal index that counts from the end as one that counts from the front."""
    return c.sizes.add(size, i) if isinstance(i, int) and i < 0 else i


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
    """x[i0, :, i2] = values, written as an index copy over the indexed dimensions joined to one."""
    if accumulate:
        raise Unsupported("accumulate=True")
    given = [(i, t) for i, t in enumerate(indices) if t is not None]
    if any(t.dtype in (D.BOOL, D.U8) for _, t in given):
        return _masked_put(c, x, given, values)
    axes = [i for i, _ in given]
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    rest = [d for d in range(x.rank) if d not in axes]
    front = axes[0] if adjacent else 0
    order = rest[:front] + axes + rest[front:]
    moved = permute(c, x, order)
    joined = (*moved.shape[:front], c.sizes.product(x.shape[a] for a in axes), *moved.shape[front + len(axes) :])
    flat, picked = _flat_index(c, [(x.shape[a], t) for a, t in given])
    wide = expand(c, values, (*joined[:front], *picked, *joined[front + 1 :]))
    source = reshape(c, wide, (*joined[:front], c.sizes.product(picked), *joined[front + 1 :]))
    out = index_copy(c, reshape(c, moved, joined), front, flat, source)
    return permute(c, reshape(c, out, moved.shape), [order.index(d) for d in range(x.rank)])


def _flat_index(c: Context, given: list[tuple[Int, Tensor]]) -> tuple[Slot, tuple[Int, ...]]:
    """Index tensors over dimensions of these sizes as one (n) index over the joined one, and their common shape."""
    picked = _broadcast([t.shape for _, t in given])
    if len(given) == 1:
        return index_slot(c, reshape(c, given[0][1], (c.sizes.product(picked),))), picked
    total: Any = None
    for size, t in given:
        index = slot_as(c, t, D.I64)
        index = step("where", D.I64, step("lt", D.I64, index, 0), step("add", D.I64, index, size), index)
        total = index if total is None else step("add", D.I64, step("mul", D.I64, total, size), index)
    flat = c.tensor(compute(c, total, picked, D.I64))
    return c.tensor(reshape(c, flat, (c.sizes.product(picked),))), picked


def _broadcast(shapes: list[tuple[Int, ...]]) -> tuple[Int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*padded, strict=True))


def _masked_put(c: Context, x: Tensor, given: list[tuple[int, Tensor]], values: Tensor) -> Tensor:
    """x[mask] = number."""
    axis, mask = given[0]
    if len(given) > 1 or any(d != 1 for d in values.shape):
        raise Unsupported("a mask as index with more than one value")
    shape = (1,) * axis + mask.shape + (1,) * (x.rank - axis - mask.rank)
    value: Tensor | Scalar = reshape(c, values, ())
    return compute(c, step("where", x.dtype, reshape(c, mask, shape), value, x), x.shape, x.dtype)
