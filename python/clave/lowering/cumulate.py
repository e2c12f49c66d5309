"""Running sums, products, extremes and logarithms of sums of exponentials along a dimension."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.lowering.registry import WIDE, Context, Filled, Tensor, lower
from clave.lowering.steps import cast_to, slot_as

_K = schema.CumulateKind
_KINDS = {"cumsum": _K.sum, "cumprod": _K.prod, "logcumsumexp": _K.logsumexp, "cummax": _K.max, "cummin": _K.min}


def _kind(c: Context) -> schema.CumulateKind:
    return _KINDS[c.op()]


@lower("aten.cumsum.default", "aten.cumprod.default", "aten.logcumsumexp.default")
def cumulate(c: Context, x: Tensor, axis: int, *_: Any) -> Tensor:
    """Lowers cumsum, cumprod and logcumsumexp. Integers are summed as i64."""
    if x.rank == 0:
        return cast_to(c, x, c.dtype())
    dtype = c.dtype()
    wide = WIDE.get(dtype, dtype) if _kind(c) in (_K.sum, _K.prod) else dtype  # wraps the same way
    out = c.emit("Cumulate", kind=_kind(c), x=slot_as(c, x, wide), axis=axis % x.rank, dtype=wide)
    return slot_as(c, out, dtype)


@lower("aten.cummax.default", "aten.cummin.default")
def extreme(c: Context, x: Tensor, axis: int) -> list[Tensor]:
    """Returns the values and their indices."""
    if x.rank == 0:
        return [x, Filled(0, schema.DType.I64, ())]
    places = c.builder.temp(schema.DType.I64, c.shape(1))
    more = {"indices": places} if c.used(1) else {}
    x = c.tensor(x)
    out = c.emit("Cumulate", kind=_kind(c), x=x, axis=axis % x.rank, **more, shape=c.shape(0), dtype=x.dtype)
    return [out, places]
