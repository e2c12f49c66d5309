"""The recurrence of state space models."""

from __future__ import annotations

from typing import Any

from clave.builder import Slot
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.steps import cast_to, slot_as


@lower("clave.ssm_scan.default")
def ssm_scan(
    c: Context, x: Tensor, log_decay: Tensor, b: Tensor, c_: Tensor, state: Tensor, rate: Tensor | None
) -> list[Tensor | None]:
    """Lowers clave.ops.ssm_scan. Returns its result, then the new state."""
    dtype = state.dtype
    operands = {"x": x, "log_decay": log_decay, "b": b, "c": c_, "state": state, "rate": rate}
    fields: dict[str, Any] = {name: None if t is None else slot_as(c, t, dtype) for name, t in operands.items()}
    before: Slot = fields["state"]
    after = c.builder.temp(before.dtype, before.shape)
    out = c.emit("SsmScan", **fields, state_out=after, shape=x.shape, dtype=dtype)
    return [cast_to(c, out, x.dtype), after]
