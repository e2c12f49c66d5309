"""Resizes: nearest, linear, cubic, antialiased, by size or by scale factor."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int
from clave.errors import Unsupported
from clave.lowering.registry import Context, Tensor, lower

_M = schema.UpsampleMode
_SCALES = ("scale_d", "scale_h", "scale_w")


def _upsample(
    c: Context, x: Tensor, mode: schema.UpsampleMode, align: bool, scales: list[float | None], antialias: bool = False
) -> Tensor:
    """Resizes x (N, C, spatial...). As in torch, antialiased and 8-bit images are resized along one dimension after the
    other, the last one first, and each result is rounded to x's dtype."""
    shape, x = c.shape(), c.tensor(x)
    n = x.rank - 2
    if any(not isinstance(s, int | float | None) for s in scales):
        raise Unsupported("a scale factor known only at run time")
    given = {k: None if s is None else float(s) for k, s in zip(_SCALES[-n:], scales, strict=True)}
    fields: dict[str, Any] = {"mode": mode, "align_corners": align, "antialias": antialias, **given}
    if not antialias and (x.dtype != schema.DType.U8 or mode <= _M.nearest_exact):
        return c.emit("Upsample", x=x, **fields)
    for axis in reversed(range(2, x.rank)):
        if x.shape[axis] != shape[axis]:
            resized = (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :])
            x = c.emit("Upsample", x=x, **fields, shape=resized)
    return x


def _register(name: str, mode: schema.UpsampleMode, *, blends: bool, antialias: bool = False) -> None:
    """Registers the lowerings of an op. name: the op's name in torch. blends: the op has align_corners."""

    @lower(f"aten.{name}.default")
    def by_size(c: Context, x: Tensor, size: list[Int], *rest: Any) -> Tensor:
        align, scales = (rest[0], rest[1:]) if blends else (False, rest)
        return _upsample(c, x, mode, align, list(scales), antialias)

    @lower(f"aten.{name}.vec")
    def by_size_or_factor(c: Context, x: Tensor, size: list[Int] | None, *rest: Any) -> Tensor:
        align, factors = rest if blends else (False, rest[0])
        return _upsample(c, x, mode, align, list(factors or [None] * (x.rank - 2)), antialias)


for _n in (1, 2, 3):
    _register(f"upsample_nearest{_n}d", _M.nearest, blends=False)
    _register(f"_upsample_nearest_exact{_n}d", _M.nearest_exact, blends=False)
for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    _register(f"upsample_{_name}", _M.linear, blends=True)
_register("upsample_bicubic2d", _M.cubic, blends=True)
_register("_upsample_bilinear2d_aa", _M.linear, blends=True, antialias=True)
_register("_upsample_bicubic2d_aa", _M.cubic, blends=True, antialias=True)
