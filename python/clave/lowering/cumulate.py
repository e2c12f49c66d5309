"""Running sums and products along a dimension."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.steps import cast_to, slot_as


@lower("aten.cumsum.default", "aten.cumprod.default")
def cumulate(c: Context, x: Tensor, axis: int, dtype: Any) -> Tensor:
    """Integers are summed as i64."""
    if x.rank == 0:
        return cast_to(c, x, c.dtype())
    name = c.node.target._schema.name
    kind = schema.CumulateKind.sum if name == "aten::cumsum" else schema.CumulateKind.prod
    return c.emit("Cumulate", kind=kind, x=slot_as(c, x, c.dtype()), axis=axis % x.rank)
