"""Reductions over groups of table rows."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.lowering.index import index_slot
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.steps import slot_as


@lower("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    c: Context,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    _scale: bool,
    mode: int,
    _sparse: bool,
    factors: Tensor | None,
    include_last_offset: bool,
    padding_idx: int,
) -> list[Any]:
    """Returns the first of torch's four results, and None for the others, which are for its gradient."""
    out = c.emit(
        "EmbeddingBag",
        kind=schema.EmbeddingBagKind(mode),
        weight=c.tensor(weight),
        indices=index_slot(c, indices),
        offsets=index_slot(c, offsets),
        weights=None if factors is None else slot_as(c, factors, weight.dtype),
        include_last_offset=include_last_offset,
        padding_idx=padding_idx if padding_idx >= 0 else None,
        shape=c.shape(0),
        dtype=c.dtype(0),
    )
    return [out, None, None, None]
