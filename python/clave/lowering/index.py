"""Selects elements by index tensors: embedding, index_select, gather, index, take."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.nonzero import columns, unknown_size
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import compute, opmath, slot_as, step

D = schema.DType

_NORMS = {1: schema.ReduceKind.norm1, 2: schema.ReduceKind.norm2}


def index_slot(c: Context, index: Tensor) -> Slot:
    """Returns an index tensor as i32 or i64."""
    return c.tensor(index) if index.dtype in (D.I32, D.I64) else slot_as(c, index, D.I64)


@lower("aten.embedding.default")
def embedding(c: Context, weight: Tensor, index: Tensor, *_: Any) -> Tensor:
    return c.emit("IndexSelect", x=c.tensor(weight), axis=0, index=index_slot(c, index))


@lower("aten.embedding_renorm.default")
def embedding_renorm(c: Context, weight: Tensor, index: Tensor, max_norm: float, order: float) -> Tensor:
    """Returns the table, in which the rows that `index` selects are scaled down to max_norm if their norm is larger."""
    if order not in _NORMS:
        raise Unsupported(f"norm_type {order}")
    n, row = c.sizes.product(index.shape), weight.shape[1:]
    flat = c.tensor(reshape(c, index_slot(c, index), (n,)))
    rows = c.emit("IndexSelect", x=c.tensor(weight), axis=0, index=flat, shape=(n, *row))
    norm = c.emit("Reduce", kind=_NORMS[order], x=rows, axes=[1], keepdim=True, shape=(n, 1))
    wide = opmath(c.dtype())
    scale = step("div", wide, float(max_norm), step("add", wide, norm, 1e-7))
    scaled = step("where", wide, step("gt", wide, norm, float(max_norm)), step("mul", wide, rows, scale), rows)
    source = compute(c, scaled, (n, *row))
    return c.emit("IndexCopy", x=c.tensor(weight), axis=0, index=flat, source=c.tensor(source))


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
    """Lowers x[i0, :, i2]. None keeps a dimension, and a mask selects the positions where it is true."""
    axes, given = index_tensors(c, indices, c.fake().shape)
    return c.emit("Index", x=c.tensor(x), indices=given, axes=axes) if axes else x


def index_tensors(c: Context, indices: list[Tensor | None], sizes: Any = ()) -> tuple[list[int], list[Slot]]:
    """Returns the indexed axes, and an integer tensor for each. sizes: those of the result, of which one may be the
    count of a mask."""
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
    """Selects elements of the flattened tensor."""
    flat = c.tensor(reshape(c, x, (c.sizes.product(x.shape),)))
    return c.emit("Index", x=flat, indices=[index_slot(c, index)], axes=[0])
