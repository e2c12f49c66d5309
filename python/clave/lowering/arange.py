"""Tensors made of numbers: arange, full and similar ops. Filled tensors stay numbers until a tensor is needed."""

from __future__ import annotations

from typing import Any

import torch

from clave import schema
from clave.builder import Float, Int, Slot, Val
from clave.errors import Unsupported
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.steps import Operand, cast, compute, convert, is_float, opmath, step


def counting(c: Context, start: Int, size: Int, step: Int = 1) -> Slot:
    """Returns (start, start + step, ...): (size,) i64."""
    return c.emit("Arange", start=start, step=step, shape=(size,), dtype=schema.DType.I64)


def _as_float(c: Context, x: Scalar) -> Float:
    """Returns a number as a floating-point value."""
    if not isinstance(x, Val) or x.type == "float":
        return x if isinstance(x, Val) else float(x)
    out = c.builder.val("float")
    c.builder.emit("Scalar", kind=schema.ScalarKind.to_float, a=x, out=out)
    return out


def _arange(c: Context, start: Scalar, step: Scalar) -> Slot:
    if is_float(c.dtype()):
        return c.emit("Arange", start_float=_as_float(c, start), step_float=_as_float(c, step))
    whole = [x if isinstance(x, Val) else int(x) for x in (start, step)]
    return c.emit("Arange", start=whole[0], step=whole[1])


@lower("aten.arange.default")
def arange(c: Context, end: Scalar, *_: Any) -> Tensor:
    return _arange(c, 0, 1)


@lower("aten.arange.start")
def arange_start(c: Context, start: Scalar, end: Scalar, *_: Any) -> Tensor:
    return _arange(c, start, 1)


@lower("aten.arange.start_step")
def arange_step(c: Context, start: Scalar, end: Scalar, step: Scalar, *_: Any) -> Tensor:
    return _arange(c, start, step)


@lower(
    "aten.linspace.default", "aten.linspace.Tensor_Tensor", "aten.linspace.Tensor_Scalar", "aten.linspace.Scalar_Tensor"
)
def linspace(c: Context, start: Tensor | Scalar, end: Tensor | Scalar, n: int, *_: Any) -> Tensor:
    """Computes each half from its own end, as torch does. torch rounds the ends to the dtype. Integers are computed in
    f64 and truncated."""
    dtype = c.dtype()
    t = opmath(dtype) if is_float(dtype) else schema.DType.F64
    first, last = (cast(convert(x, dtype) if isinstance(x, int | float) else x, dtype) for x in (start, end))
    i, parts = counting(c, 0, n), max(n - 1, 1)
    width: Operand = step("div", t, step("sub", t, last, first), parts)
    if all(isinstance(x, int | float) for x in (first, last)):
        width = (last - first) / parts
    from_first = step("add", t, first, step("mul", t, width, i))
    from_last = step("sub", t, last, step("mul", t, width, step("sub", i.dtype, n - 1, i)))
    return compute(c, step("where", t, step("lt", i.dtype, i, max(n // 2, 1)), from_first, from_last))


def _filled(c: Context, value: Scalar) -> Tensor:
    if isinstance(value, Val):
        value = _as_float(c, value) if is_float(c.dtype()) else value
        return Filled(value, c.dtype(), c.shape())
    return Filled(convert(value, c.dtype()), c.dtype(), c.shape())


@lower("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(c: Context, _: Any, second: Any, *rest: Any) -> Tensor:
    """Lowers full(size, value), full_like(x, value) and new_full(x, size, value)."""
    return _filled(c, rest[0] if c.op() == "new_full" else second)


@lower("aten.fill.Scalar", "aten.fill_.Scalar")
def fill(c: Context, x: Tensor, value: Scalar) -> Tensor:
    return _filled(c, value)


@lower("aten.scalar_tensor.default", "prims.scalar_tensor.default")
def scalar_tensor(c: Context, value: Scalar, *_: Any) -> Tensor:
    return _filled(c, value)


@lower("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(c: Context, *_: Any) -> Tensor:
    return _filled(c, 1)


@lower(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
)
def zeros(c: Context, *_: Any) -> Tensor:
    """Returns zeros, also for uninitialised tensors, so that runs repeat."""
    return _filled(c, 0)


@lower("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(c: Context, rows: Int, columns: Int, offset: Int, *_: Any) -> Tensor:
    """Returns the positions (2, n) in a matrix of known size, as a constant."""
    if any(isinstance(x, Val) for x in (rows, columns, offset)):
        raise Unsupported("a size that is known only at run time")
    name = "tril_indices" if "tril" in c.op() else "triu_indices"
    return c.constant(getattr(torch, name)(rows, columns, offset, dtype=c.fake().dtype), name)
