"""Normalisation: layer, rms, group, instance and batch norm (with running statistics)."""

from __future__ import annotations

from typing import Any

import torch

from clave.dtypes import torch_dtype
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import permute, reshape
from clave.lowering.steps import cast_to, promote, slot_as


def _norm(
    c: Context, op: str, x: Tensor, operands: dict[str, Tensor | None], index: int | None = None, **fields: Any
) -> Tensor:
    """All operands in the widest of their dtypes (f32 parameters of a bf16 module), the result in torch's."""
    given = {k: v for k, v in operands.items() if v is not None}
    dtype = promote(x, *given.values()) if given else x.dtype
    cast = {k: slot_as(c, v, dtype) for k, v in given.items()}
    out = c.emit(op, x=slot_as(c, x, dtype), **cast, **fields, dtype=dtype, shape=x.shape)
    return cast_to(c, out, c.dtype(index))


@lower("aten.layer_norm.default")
def layer_norm(c: Context, x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float, _: bool) -> Tensor:
    return _norm(c, "LayerNorm", x, {"weight": weight, "bias": bias}, n_axes=len(shape), eps=eps)


@lower("aten.native_layer_norm.default")
def native_layer_norm(
    c: Context, x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float
) -> list[Tensor | None]:
    return [_norm(c, "LayerNorm", x, {"weight": weight, "bias": bias}, 0, n_axes=len(shape), eps=eps), None, None]


def _rms(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None, index: int | None) -> Tensor:
    eps = torch.finfo(torch_dtype(x.dtype)).eps if eps is None else eps
    return _norm(c, "RmsNorm", x, {"weight": weight}, index, n_axes=len(shape), eps=eps)


@lower("aten.rms_norm.default")
def rms_norm(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None) -> Tensor:
    return _rms(c, x, shape, weight, eps, None)


@lower("aten._fused_rms_norm.default")
def fused_rms_norm(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None) -> list[Tensor | None]:
    return [_rms(c, x, shape, weight, eps, 0), None]


@lower("aten.group_norm.default")
def group_norm(c: Context, x: Tensor, groups: int, weight: Any, bias: Any, eps: float, _: bool) -> Tensor:
    return _norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, groups=groups, eps=eps)


@lower("aten.native_group_norm.default")
def native_group_norm(
    c: Context, x: Tensor, weight: Any, bias: Any, n: Any, channels: Any, area: Any, groups: int, eps: float
) -> list[Tensor | None]:
    return [_norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, 0, groups=groups, eps=eps), None, None]


@lower("aten.instance_norm.default")
def instance_norm(
    c: Context,
    x: Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    _: bool,
) -> Tensor:
    """Statistics of each channel of each sample: a group norm with one channel in a group."""
    if not use_input_stats:
        return _batch(c, x, weight, bias, mean, var, eps, None)
    channels = x.shape[1]
    return _norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, groups=channels, eps=eps)


@lower("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    c: Context, x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> list[Tensor | None]:
    """Statistics of the batch itself: a group norm over (1, C, N * area)."""
    n, channels, *area = x.shape
    dims = [1, 0, *range(2, x.rank)]
    rows = reshape(c, permute(c, x, dims), (1, channels, c.sizes.product([n, *area])))
    out = _norm(c, "GroupNorm", rows, {"weight": weight, "bias": bias}, 0, groups=channels, eps=eps)
    return [permute(c, reshape(c, out, (channels, n, *area)), dims), None, None]


def _batch(c: Context, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, eps: float, index: int | None) -> Tensor:
    return _norm(c, "BatchNorm", x, {"weight": weight, "bias": bias, "mean": mean, "var": var}, index, eps=eps)


@lower("aten.batch_norm.default")
def batch_norm(
    c: Context,
    x: Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    _: bool,
) -> Tensor:
    return _batch(c, x, weight, bias, mean, var, eps, None)


@lower("aten._native_batch_norm_legit_no_training.default")
def native_batch_norm(
    c: Context, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> list[Tensor | None]:
    return [_batch(c, x, weight, bias, mean, var, eps, 0), None, None]
