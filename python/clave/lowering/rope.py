"""Rotary embedding: clave.ops.rope, which runs as one kernel."""

from __future__ import annotations

from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.steps import slot_as


@lower("clave.rope.default")
def rope(c: Context, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    x, cos, sin = (slot_as(c, t, c.dtype()) for t in (x, cos, sin))
    return c.emit("Rope", x=x, cos=cos, sin=sin, interleaved=interleaved)
