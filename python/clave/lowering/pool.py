"""Pooling over one to three spatial dimensions: max, average, adaptive."""

from __future__ import annotations

import re
from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.conv import numbers
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert, reshape

_K = schema.PoolKind


def _pool(
    c: Context, op: str, n: int, x: Tensor, index: int | None, with_indices: bool = False, **fields: Any
) -> list[Tensor]:
    """Pools the last n dimensions of x (C, *) or (N, C, *). Returns values and, with `with_indices`, indices."""
    batch = c.tensor(x if x.rank == n + 2 else insert(c, x, 0))
    shape = c.shape(index)
    full = shape if x.rank == n + 2 else (1, *shape)
    indices: Slot | None = c.builder.temp(schema.DType.I64, full) if with_indices else None
    more = {} if indices is None else {"indices": indices}
    out = c.emit(op, x=batch, **fields, **more, shape=full, dtype=c.dtype(index))
    return [reshape(c, s, shape) for s in (out, indices) if s is not None]


def _window(kernel: list[Int], stride: list[Int], padding: list[Int], n: int) -> dict[str, list[int]]:
    sizes = numbers(kernel, n)
    return {"kernel": sizes, "stride": numbers(stride, n) or sizes, "padding": numbers(padding, n)}


def _max(n: int, *targets: str) -> None:
    @lower(*targets)
    def lowering(
        c: Context,
        x: Tensor,
        kernel: list[Int],
        stride: list[Int],
        padding: list[Int],
        dilation: list[Int],
        ceil_mode: bool,
    ) -> Any:
        several = isinstance(c.node.meta["val"], tuple | list)
        window = _window(kernel, stride, padding, n) | {"dilation": numbers(dilation, n)}
        wants_indices = several and c.used(1)
        out = _pool(c, "Pool", n, x, 0 if several else None, wants_indices, kind=_K.max, ceil_mode=ceil_mode, **window)
        return out if several else out[0]


_max(1, "aten.max_pool1d.default", "aten.max_pool1d_with_indices.default")
_max(2, "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default")
_max(3, "aten.max_pool3d.default", "aten.max_pool3d_with_indices.default")


def _spatial(c: Context) -> int:
    """Returns the number of spatial dimensions, with which the op's name ends."""
    return int(re.search(r"([123])d$", c.op())[1])


@lower("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    c: Context,
    x: Tensor,
    kernel: list[Int],
    stride: list[Int],
    padding: list[Int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None = None,
) -> Tensor:
    n = _spatial(c)
    window = _window(kernel, stride, padding, n) | {"dilation": [1] * n}
    rest = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "divisor": divisor}
    return _pool(c, "Pool", n, x, None, kind=_K.avg, **window, **rest)[0]


@lower(
    "aten.adaptive_avg_pool1d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool3d.default",
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
)
def adaptive_avg_pool(c: Context, x: Tensor, _: list[Int]) -> Tensor:
    return _pool(c, "AdaptivePool", _spatial(c), x, None, kind=_K.avg)[0]


@lower("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(c: Context, x: Tensor, _: list[Int]) -> list[Tensor]:
    return _pool(c, "AdaptivePool", _spatial(c), x, 0, c.used(1), kind=_K.max)
