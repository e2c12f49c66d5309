"""Elements picked by index tensors: embedding, index_select, gather, index."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.registry import Context, Tensor, lower
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
    if x.rank != index.rank or x.rank == 0:
        whole = [reshape(c, t, (1,)) if t.rank == 0 else t for t in (x, index)]
        shape = whole[1].shape
        out = c.emit("Gather", x=c.tensor(whole[0]), axis=0, index=index_slot(c, whole[1]), shape=shape)
        return reshape(c, out, c.shape())
    return c.emit("Gather", x=c.tensor(x), axis=axis % x.rank, index=index_slot(c, index))


@lower("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(c: Context, x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """x[i0, :, i2]: None keeps a dimension."""
    axes = [i for i, t in enumerate(indices) if t is not None]
    given = [t for t in indices if t is not None]
    if any(t.dtype in (D.BOOL, D.U8) for t in given):
        raise Unsupported("a mask as index: the size of its result is not known before the run")
    if not axes:
        return x
    return c.emit("Index", x=c.tensor(x), indices=[index_slot(c, t) for t in given], axes=axes)
