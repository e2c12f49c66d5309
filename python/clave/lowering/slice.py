"""Views: slice, select, split, chunk, unbind, flip, diagonal, unfold, as_strided; and roll, which joins slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from clave import schema
from clave.builder import Int, Slot, Val
from clave.errors import Unsupported
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import permute, reshape
from clave.sizes import expression

_K = schema.ScalarKind
END = 2**63 - 1


def slice_(c: Context, x: Tensor, axis: int, start: Int, stop: Int, size: Int, step: Int = 1) -> Tensor:
    """Returns x[start:stop:step] along axis. size: the resulting size of the axis."""
    axis %= x.rank
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    if shape == x.shape and step == 1:
        return x
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, shape)
    return c.builder.view("Slice", x, shape, axis=axis, start=start, stop=stop, step=step)


def select(c: Context, x: Tensor, axis: int, index: Int) -> Tensor:
    axis %= x.rank
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    if x.shape[axis] == 1 and isinstance(index, int):
        return reshape(c, x, shape)
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, shape)
    return c.builder.view("Select", x, shape, axis=axis, index=index)


@lower("aten.slice.Tensor")
def sliced(c: Context, x: Tensor, axis: int, start: Int | None, stop: Int | None, step: Int) -> Tensor:
    axis %= x.rank
    start, stop = 0 if start is None else start, END if stop is None else stop
    size = expression(c.fake().shape[axis])
    if isinstance(size, sympy.Symbol) and size not in c.sizes.known:
        c.sizes.known[size] = _extent(c, x.shape[axis], start, stop, step)
    return slice_(c, x, axis, start, stop, c.sizes.resolve(size), step)


def _extent(c: Context, size: Int, start: Int, stop: Int, step: int) -> Val:
    """Returns the number of elements that start:stop:step selects of `size`, if the bounds depend on data."""
    first, end = (bounded(c, v, size) for v in (start, stop))
    n = c.sizes.scalar(_K.max, c.sizes.scalar(_K.sub, end, first), 0)
    if step > 1:
        n = c.sizes.scalar(_K.floor_div, c.sizes.scalar(_K.add, n, step - 1), step)
    n.min, n.max = 0, size if isinstance(size, int) else size.max
    return n


def bounded(c: Context, v: Int, size: Int) -> Int:
    """Returns a bound of a slice, clamped to [0, size]. A negative bound counts from the end."""
    if isinstance(v, int) and isinstance(size, int):
        return max(0, min(v + size if v < 0 else v, size))
    if isinstance(v, int) and v >= 0:
        return c.sizes.scalar(_K.min, v, size)
    below = c.sizes.scalar(_K.mul, c.sizes.scalar(_K.lt, v, 0), size)
    return c.sizes.scalar(_K.max, c.sizes.scalar(_K.min, c.sizes.scalar(_K.add, v, below), size), 0)


@lower("aten.narrow.default", "aten.narrow_copy.default")
def narrow(c: Context, x: Tensor, axis: int, start: Int, length: Int) -> Tensor:
    if isinstance(start, int) and start < 0:
        start = c.sizes.add(x.shape[axis % x.rank], start)
    stop = c.sizes.add(start, length)
    return slice_(c, x, axis, start, stop, c.shape()[axis % x.rank])


@lower("aten.select.int")
def selected(c: Context, x: Tensor, axis: int, index: Int) -> Tensor:
    return select(c, x, axis, index)


@lower(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_split_with_sizes.default",
    "aten.unsafe_chunk.default",
)
def split(c: Context, x: Tensor, _: Any, axis: int) -> list[Tensor]:
    """Returns consecutive slices of the sizes that torch has computed."""
    axis %= x.rank
    parts: list[Tensor] = []
    start: Int = 0
    for i in range(len(c.node.meta["val"])):
        size = c.shape(i)[axis]
        stop = c.sizes.add(start, size)
        parts.append(slice_(c, x, axis, start, stop, size))
        start = stop
    return parts


@lower("aten.unbind.int")
def unbind(c: Context, x: Tensor, axis: int) -> list[Tensor]:
    return [select(c, x, axis, i) for i in range(len(c.node.meta["val"]))]


def flipped(c: Context, x: Slot, axes: list[int]) -> Slot:
    return c.builder.view("Flip", x, x.shape, axes=axes)


@lower("aten.flip.default")
def flip(c: Context, x: Tensor, dims: list[int]) -> Tensor:
    axes = [d % x.rank for d in dims] if x.rank else []
    return flipped(c, x, axes) if axes and isinstance(x, Slot) else x


@lower("aten.roll.default")
def roll(c: Context, x: Tensor, shifts: list[Int], dims: list[int]) -> Tensor:
    """Moves the last `shift` elements of each dimension to the front."""
    if not dims:
        flat = reshape(c, x, (c.sizes.product(x.shape),))
        return reshape(c, _rolled(c, flat, shifts[0], 0), x.shape)
    for shift, axis in zip(shifts, dims, strict=True):
        x = _rolled(c, x, shift, axis % x.rank)
    return x


def _rolled(c: Context, x: Tensor, shift: Int, axis: int) -> Tensor:
    size = x.shape[axis]
    if isinstance(x, Filled) or size == 0:
        return x
    shift = c.sizes.modulo(shift, size)
    if shift == 0:
        return x
    rest = c.sizes.subtract(size, shift)
    parts = [slice_(c, x, axis, rest, END, shift), slice_(c, x, axis, 0, rest, rest)]
    return c.emit("Cat", xs=parts, axis=axis, shape=x.shape, dtype=x.dtype)


@lower("aten.diagonal.default")
def diagonal(c: Context, x: Tensor, offset: int, axis1: int, axis2: int) -> Tensor:
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, c.shape())
    return c.builder.view("Diagonal", x, c.shape(), offset=offset, axis1=axis1 % x.rank, axis2=axis2 % x.rank)


@lower("aten.unfold.default")
def unfold(c: Context, x: Tensor, axis: int, size: Int, step: Int) -> Tensor:
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, c.shape())
    if x.rank == 0:
        x = c.tensor(reshape(c, x, (1,)))
        return reshape(c, c.builder.view("Unfold", x, (1, *c.shape()), axis=0, size=size, step=step), c.shape())
    return c.builder.view("Unfold", x, c.shape(), axis=axis % x.rank, size=size, step=step)


@lower("aten.as_strided.default")
def as_strided(c: Context, x: Tensor, sizes: list[Int], strides: list[Int], offset: Int | None) -> Tensor:
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, c.shape())
    flat, _ = in_memory_order(c, x)
    return c.builder.view("AsStrided", c.tensor(flat), sizes, shape=sizes, strides=strides, offset=offset or 0)


def in_memory_order(c: Context, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Returns x, the call's first argument, as a row in the order of torch's memory, and a function that converts such
    a row to x's shape. Raises Unsupported if x is a part of a tensor's memory."""
    fake = c.node.meta.get("layout", c.node.args[0].meta["val"])
    whole = fake.storage_offset() == 0 and fake.untyped_storage().nbytes() == fake.numel() * fake.element_size()
    order = sorted(range(x.rank), key=lambda d: -fake.stride()[d])
    if not (whole and (fake.is_contiguous() or fake.permute(order).is_contiguous())):
        raise Unsupported("as_strided over a part of a tensor's memory")
    if fake.is_contiguous():
        order = list(range(x.rank))
    moved = permute(c, x, order)
    row = reshape(c, moved, (c.sizes.product(x.shape),))
    return row, lambda t: permute(c, reshape(c, t, moved.shape), [order.index(d) for d in range(x.rank)])
