"""Reductions over dimensions, and the index of an extreme."""

from __future__ import annotations

from typing import Any

import torch

from clave import schema
from clave.builder import Slot
from clave.lowering.registry import WIDE, Context, Scalar, Tensor, lower
from clave.lowering.reshape import reshape
from clave.lowering.steps import Operand, compute, opmath, slot_as, step

D = schema.DType
_K = schema.ReduceKind
_LOGICAL = {_K.sum: _K.any, _K.prod: _K.all}  # their kinds for BOOL


def _axes(x: Tensor, dims: list[int] | int | None) -> list[int]:
    dims = [dims] if isinstance(dims, int) else dims or []
    return sorted(d % x.rank for d in dims) if x.rank else []


def reduce_(
    c: Context, kind: schema.ReduceKind, x: Tensor, dims: Any, keepdim: bool, index: int | None = None, **more: Any
) -> Slot:
    """Reduces x, which is first cast to the result's dtype. Sums of integers are i64, any and all are BOOL."""
    dtype = D.BOOL if kind in (_K.any, _K.all) else c.dtype(index)
    if kind in (_K.sum, _K.prod):  # they wrap the same way in a wider dtype
        dtype = WIDE.get(dtype, dtype)
    if dtype == D.BOOL:
        kind = _LOGICAL.get(kind, kind)
    out = c.emit(
        "Reduce",
        kind=kind,
        x=slot_as(c, x, dtype),
        axes=_axes(x, dims),
        keepdim=keepdim,
        **more,
        shape=c.shape(index),
        dtype=dtype,
    )
    return slot_as(c, out, c.dtype(index))  # any and all of u8 are u8 in torch


def _whole(kind: schema.ReduceKind, *targets: str) -> None:
    @lower(*targets)
    def lowering(c: Context, x: Tensor, *_: Any) -> Tensor:
        return reduce_(c, kind, x, None, False)


_whole(_K.sum, "aten.sum.default")
_whole(_K.mean, "aten.mean.default")
_whole(_K.prod, "aten.prod.default")
_whole(_K.max, "aten.max.default")
_whole(_K.min, "aten.min.default")
_whole(_K.any, "aten.any.default")
_whole(_K.all, "aten.all.default", "aten._is_all_true.default")


def _over_dims(kind: schema.ReduceKind, *targets: str) -> None:
    @lower(*targets)
    def lowering(c: Context, x: Tensor, dims: Any, keepdim: bool, *_: Any) -> Tensor:
        return reduce_(c, kind, x, dims, keepdim)


_over_dims(_K.sum, "aten.sum.dim_IntList")
_over_dims(_K.mean, "aten.mean.dim")
_over_dims(_K.prod, "aten.prod.dim_int")
_over_dims(_K.max, "aten.amax.default")
_over_dims(_K.min, "aten.amin.default")
_over_dims(_K.any, "aten.any.dim", "aten.any.dims")
_over_dims(_K.all, "aten.all.dim", "aten.all.dims")


def _spread(kind: schema.ReduceKind, name: str) -> None:
    """Lowers var and std. correction: subtracted from the count, 1 by default."""

    @lower(f"aten.{name}.correction")
    def lowering(c: Context, x: Tensor, dims: Any, correction: Scalar | None, keepdim: bool) -> Tensor:
        return reduce_(c, kind, x, dims, keepdim, correction=1.0 if correction is None else float(correction))

    @lower(f"aten.{name}_mean.correction")
    def with_mean(c: Context, x: Tensor, dims: Any, correction: Scalar | None, keepdim: bool) -> list[Tensor]:
        spread = reduce_(c, kind, x, dims, keepdim, 0, correction=1.0 if correction is None else float(correction))
        return [spread, reduce_(c, _K.mean, x, dims, keepdim, 1)]


_spread(_K.var, "var")
_spread(_K.std, "std")


def _power(dtype: schema.DType, x: Operand, p: float) -> Operand:
    """Returns x to the power of p, as a product for a few factors, because pow is slow on devices."""
    if p not in (3.0, 4.0):
        return step("pow", dtype, x, p)
    square = step("mul", dtype, x, x)
    return step("mul", dtype, square, x if p == 3 else square)


@lower("aten.linalg_vector_norm.default")
def vector_norm(c: Context, x: Tensor, order: Scalar, dims: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    if order in (1, 2):
        return reduce_(c, _K.norm1 if order == 1 else _K.norm2, x, dims, keepdim)
    if order in (float("inf"), float("-inf")):
        size = compute(c, step("abs", c.dtype(), x), x.shape)
        return reduce_(c, _K.max if order > 0 else _K.min, size, dims, keepdim)
    if order == 0:
        return reduce_(c, _K.sum, compute(c, step("ne", x.dtype, x, 0), x.shape, D.BOOL), dims, keepdim)
    wide = opmath(c.dtype())
    powers = slot_as(c, compute(c, _power(wide, step("abs", wide, x), float(order)), x.shape, wide), wide)
    total = c.emit(
        "Reduce", kind=_K.sum, x=powers, axes=_axes(x, dims), keepdim=keepdim, shape=c.shape(), dtype=wide
    )  # fmt: skip
    return slot_as(c, compute(c, step("pow", wide, total, 1.0 / float(order)), c.shape()), c.dtype())


@lower("aten.dist.default")
def dist(c: Context, a: Tensor, b: Tensor, order: Scalar) -> Tensor:
    """Returns the norm of a - b."""
    shapes = (n.meta["val"].shape for n in c.node.args[:2])
    shape = c.sizes.shape(torch.broadcast_shapes(*shapes))
    difference = compute(c, step("sub", c.dtype(), a, b), shape)
    return vector_norm(c, difference, order, None, False, None)


# ---------------------------------------------------------------- the index of an extreme


def arg_reduce(c: Context, kind: str, x: Tensor, axis: int | None, keepdim: bool, index: int | None = None) -> Slot:
    kind_ = schema.ArgReduceKind[kind]
    x = slot_as(c, x, D.U8) if x.dtype == D.BOOL else c.tensor(x)
    shape = c.shape(index)
    if x.rank == 0:
        x, axis, keepdim = c.tensor(reshape(c, x, (1,))), None, False
    axis = None if axis is None else axis % x.rank
    return c.emit("ArgReduce", kind=kind_, x=x, axis=axis, keepdim=keepdim, shape=shape, dtype=D.I64)


@lower("aten.argmax.default", "aten.argmin.default")
def argmax(c: Context, x: Tensor, axis: int | None, keepdim: bool) -> Tensor:
    return arg_reduce(c, c.op(), x, axis, keepdim)


@lower("aten.max.dim", "aten.min.dim")
def max_dim(c: Context, x: Tensor, axis: int, keepdim: bool) -> list[Tensor | None]:
    """Returns values and indices, None for the one that is not used."""
    largest = c.op() == "max"
    return [
        reduce_(c, _K.max if largest else _K.min, x, axis, keepdim, 0) if c.used(0) else None,
        arg_reduce(c, "argmax" if largest else "argmin", x, axis, keepdim, 1) if c.used(1) else None,
    ]


@lower("aten.aminmax.default")
def aminmax(c: Context, x: Tensor, axis: int | None, keepdim: bool) -> list[Tensor]:
    return [reduce_(c, kind, x, axis, keepdim, i) for i, kind in enumerate((_K.min, _K.max))]
