"""Normalisation: layer, RMS, group, instance and batch norm (with running statistics)."""

from __future__ import annotations

from typing import Any

import torch

from clave import schema
from clave.dtypes import torch_dtype
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.reshape import permute, reshape
from clave.lowering.steps import cast_to, compute, opmath, promote, slot_as, step

_K = schema.ReduceKind


def _norm(
    c: Context, op: str, x: Tensor, operands: dict[str, Tensor | None], index: int | None = None, **fields: Any
) -> Tensor:
    """Emits a norm in the widest dtype of the operands, such as f32 parameters of a bf16 module. The result has torch's
    dtype."""
    given = {k: v for k, v in operands.items() if v is not None}
    dtype = promote(x, *given.values()) if given else x.dtype
    cast = {k: slot_as(c, v, dtype) for k, v in given.items()}
    out = c.emit(op, x=slot_as(c, x, dtype), **cast, **fields, dtype=dtype, shape=x.shape)
    return cast_to(c, out, c.dtype(index))


def _reduced(c: Context, kind: schema.ReduceKind, x: Tensor, axes: list[int], index: int) -> Tensor:
    """Returns a reduction without correction, in the dtype in which torch computes, in the shape of result `index`."""
    dtype, shape = opmath(x.dtype), c.shape(index)
    fields = {"kind": kind, "axes": axes, "keepdim": len(shape) == x.rank, "correction": 0.0}
    return c.emit("Reduce", x=slot_as(c, x, dtype), **fields, shape=shape, dtype=dtype)


def _inverse_root(c: Context, x: Tensor, eps: float, index: int) -> Tensor:
    return compute(c, step("rsqrt", x.dtype, step("add", x.dtype, x, eps)), c.shape(index), c.dtype(index))


def _moments(c: Context, x: Tensor, axes: list[int], eps: float) -> list[Tensor | None]:
    """Returns results 1 and 2: mean and 1 / sqrt(var + eps) over the axes. None for a result that is not used."""
    mean = cast_to(c, _reduced(c, _K.mean, x, axes, 1), c.dtype(1)) if c.used(1) else None
    return [mean, _inverse_root(c, _reduced(c, _K.var, x, axes, 2), eps, 2) if c.used(2) else None]


def _last(x: Tensor, n: int) -> list[int]:
    return list(range(x.rank - n, x.rank))


@lower("aten.layer_norm.default")
def layer_norm(c: Context, x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float, _: bool) -> Tensor:
    return _norm(c, "LayerNorm", x, {"weight": weight, "bias": bias}, n_axes=len(shape), eps=eps)


@lower("aten.native_layer_norm.default")
def native_layer_norm(
    c: Context, x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float
) -> list[Tensor | None]:
    out = _norm(c, "LayerNorm", x, {"weight": weight, "bias": bias}, 0, n_axes=len(shape), eps=eps)
    return [out, *_moments(c, x, _last(x, len(shape)), eps)]


def _rms_eps(x: Tensor, eps: float | None) -> float:
    """Returns eps. The default is that of the dtype in which the norm is computed."""
    return torch.finfo(torch_dtype(opmath(x.dtype))).eps if eps is None else eps


def _rms(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None, index: int | None) -> Tensor:
    return _norm(c, "RmsNorm", x, {"weight": weight}, index, n_axes=len(shape), eps=_rms_eps(x, eps))


@lower("aten.rms_norm.default")
def rms_norm(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None) -> Tensor:
    return _rms(c, x, shape, weight, eps, None)


@lower("aten._fused_rms_norm.default")
def fused_rms_norm(c: Context, x: Tensor, shape: list[int], weight: Any, eps: float | None) -> list[Tensor | None]:
    out = _rms(c, x, shape, weight, eps, 0)
    if not c.used(1):
        return [out, None]
    dtype = opmath(x.dtype)
    squares = compute(c, step("mul", dtype, x, x), x.shape, dtype)
    return [out, _inverse_root(c, _reduced(c, _K.mean, squares, _last(x, len(shape)), 1), _rms_eps(x, eps), 1)]


@lower("aten.group_norm.default")
def group_norm(c: Context, x: Tensor, groups: int, weight: Any, bias: Any, eps: float, _: bool) -> Tensor:
    return _norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, groups=groups, eps=eps)


@lower("aten.native_group_norm.default")
def native_group_norm(
    c: Context, x: Tensor, weight: Any, bias: Any, n: Any, channels: int, area: Any, groups: int, eps: float
) -> list[Tensor | None]:
    out = _norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, 0, groups=groups, eps=eps)
    per_group = c.sizes.product([c.sizes.divide(channels, groups), *x.shape[2:]])
    return [out, *_moments(c, reshape(c, x, (x.shape[0], groups, per_group)), [2], eps)]


def _each_channel(c: Context, x: Tensor, weight: Any, bias: Any, eps: float, index: int | None = None) -> Tensor:
    """Normalises each channel of each sample by a group norm with one channel per group. With an unknown number of
    channels, which a group norm does not accept, each channel is a sample and is scaled after the norm."""
    n, channels, *area = x.shape
    if isinstance(channels, int):
        return _norm(c, "GroupNorm", x, {"weight": weight, "bias": bias}, index, groups=channels, eps=eps)
    dtype = opmath(promote(*(t for t in (x, weight, bias) if t is not None)))
    rows = reshape(c, x, (c.sizes.product([n, channels]), 1, *area))
    out = c.emit("GroupNorm", x=slot_as(c, rows, dtype), groups=1, eps=eps, dtype=dtype, shape=rows.shape)
    e: Any = reshape(c, out, x.shape)
    for kind, t in (("mul", weight), ("add", bias)):
        e = e if t is None else step(kind, dtype, e, reshape(c, t, (channels, *[1] * len(area))))
    return compute(c, e, x.shape, c.dtype(index))


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
    if not use_input_stats:
        return _batch(c, x, weight, bias, mean, var, eps, None)
    return _each_channel(c, x, weight, bias, eps)


@lower("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    c: Context, x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> list[Tensor | None]:
    """Normalises by the statistics of the batch: those of each channel of (1, C, N * area)."""
    n, channels, *area = x.shape
    dims = [1, 0, *range(2, x.rank)]
    rows = reshape(c, permute(c, x, dims), (1, channels, c.sizes.product([n, *area])))
    out = _each_channel(c, rows, weight, bias, eps, 0)
    moments = _moments(c, x, [0, *range(2, x.rank)], eps)
    return [permute(c, reshape(c, out, (channels, n, *area)), dims), *moments]


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


def _no_moments(c: Context) -> list[Tensor]:
    """Returns results 1 and 2 if the statistics are given: empty tensors."""
    return [Filled(0.0, c.dtype(i), c.shape(i)) for i in (1, 2)]


@lower("aten._native_batch_norm_legit_no_training.default")
def native_batch_norm(
    c: Context, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> list[Tensor | None]:
    return [_batch(c, x, weight, bias, mean, var, eps, 0), *_no_moments(c)]


@lower("aten._native_batch_norm_legit_functional.default")
def batch_norm_functional(
    c: Context, x: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> list[Tensor | None]:
    """Lowers batch norm in inference, because the exporter refuses training. The statistics do not change."""
    return [_batch(c, x, weight, bias, mean, var, eps, 0), *_no_moments(c), mean, var]
