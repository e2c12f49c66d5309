"""Padding: constant, reflection, replication, circular."""

from __future__ import annotations

from clave import schema
from clave.builder import Int
from clave.errors import Unsupported
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.slice import slice_

_M = schema.PadMode


def pad(c: Context, x: Tensor, amounts: list[Int], mode: schema.PadMode, value: Scalar = 0.0) -> Tensor:
    """Pads x. amounts: (before, after) of the last dimension, then of the dimension before it, and so on."""
    if all(a == 0 for a in amounts):
        return x
    if not isinstance(value, int | float):
        raise Unsupported("a padding value known only at run time")
    value = bool(value) if x.dtype is schema.DType.BOOL else value
    if isinstance(x, Filled) and x.value == value:
        return Filled(x.value, x.dtype, c.shape())
    untouched = [0] * (x.rank - len(amounts) // 2)
    before = [*untouched, *amounts[-2::-2]]
    after = [*untouched, *amounts[-1::-2]]
    return c.emit("Pad", x=c.tensor(x), before=before, after=after, mode=mode, value=float(value))


@lower("aten.constant_pad_nd.default")
def constant_pad(c: Context, x: Tensor, amounts: list[Int], value: Scalar) -> Tensor:
    return pad(c, x, amounts, _M.constant, value)


@lower("aten.pad.default")
def any_pad(c: Context, x: Tensor, amounts: list[Int], mode: str, value: float | None) -> Tensor:
    if mode == "circular":
        return circular_pad(c, x, amounts)
    return pad(c, x, amounts, _M[mode], value or 0.0)


@lower("aten._pad_circular.default")
def circular_pad(c: Context, x: Tensor, amounts: list[Int]) -> Tensor:
    """Crops x by negative amounts, then repeats the rest."""
    for i in range(0, len(amounts), 2):
        before, after = (max(-a, 0) if isinstance(a, int) else 0 for a in amounts[i : i + 2])
        if before or after:
            axis = x.rank - 1 - i // 2
            size = x.shape[axis]
            stop = c.sizes.subtract(size, after)
            x = slice_(c, x, axis, before, stop, c.sizes.subtract(stop, before))
    return pad(c, x, [max(a, 0) if isinstance(a, int) else a for a in amounts], _M.circular)


def _named(name: str, mode: schema.PadMode) -> None:
    @lower(*(f"aten.{name}_pad{n}d.default" for n in (1, 2, 3)))
    def lowering(c: Context, x: Tensor, amounts: list[Int]) -> Tensor:
        return pad(c, x, amounts, mode)


_named("reflection", _M.reflect)
_named("replication", _M.replicate)
