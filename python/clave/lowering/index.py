"""Elements picked by index tensors: embedding, index_select, gather, index, take."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Slot
from clave.lowering.nonzero import columns, unknown_size
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import slot_as

D = schema.DType


def index_slot(c: Context, index: Tensor) -> Slot:
    """An index tensor as i32 or i64."""
    return c.tensor(index) if index.dtype in (D.I32, D.I64) else slot_as(c, index, D.I64)


@lower("aten.embedding.default")
def embedding(c: Context, weight: Tensor, index: Tensor, *_: Any) -> Tensor:
    return c.emit("IndexSelect", x=c.tensor(weight), axis=0, index=index_slot(c, index))


@lower("aten.index_select.default")
def index_select(c: Context, x: Tensor, axis: int, index: Tensor) -> Tensor:
    if x.rank == 0:
        return reshape(c, x, c.shape())
    if index.rank == 0:
        index = reshape(c, index, (1,))
    return c.emit("IndexSelect", x=c.tensor(x), axis=axis % x.rank, index=index_slot(c, index))


@lower("aten.gather.default")
def gather(c: Context, x: Tensor, axis: int, index: Tensor, _: bool) -> Tensor:
    if any(d == 0 for d in index.shape):
        return Filled(0, c.dtype(), c.shape())
    if x.rank != index.rank or x.rank == 0:
        whole = [reshape(c, t, (1,)) if t.rank == 0 else t for t in (x, index)]
        shape = whole[1].shape
        out = c.emit("Gather", x=c.tensor(whole[0]), axis=0, index=index_slot(c, whole[1]), shape=shape)
        return reshape(c, out, c.shape())
    return c.emit("Gather", x=c.tensor(x), axis=axis % x.rank, index=index_slot(c, index))


@lower("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(c: Context, x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """x[i0, :, i2]: None keeps a dimension; a mask stands for the positions where it is set."""
    axes, given = index_tensors(c, indices, c.fake().shape)
    return c.emit("Index", x=c.tensor(x), indices=given, axes=axes) if axes else x


def index_tensors(c: Context, indices: list[Tensor | None], sizes: Any = ()) -> tuple[list[int], list[Slot]]:
    """The indexed axes, and an integer tensor for each. sizes: of the result; a mask's count may be among them."""
    axes: list[int] = []
    given: list[Slot] = []
    axis = 0
    for t in indices:
        if t is None:
            axis += 1
            continue
        symbols = [s for s in (unknown_size(c, size) for size in sizes) if s is not None]
        found = columns(c, t, symbols[0] if symbols else None) if is_mask(t) else [index_slot(c, t)]
        axes += range(axis, axis + len(found))
        given += found
        axis += len(found)
    return axes, given


def is_mask(t: Tensor) -> bool:
    return t.dtype in (D.BOOL, D.U8)


@lower("aten.take.default")
def take(c: Context, x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor."""
    flat = c.tensor(reshape(c, x, (c.sizes.product(x.shape),)))
    return c.emit("Index", x=flat, indices=[index_slot(c, index)], axes=[0])
