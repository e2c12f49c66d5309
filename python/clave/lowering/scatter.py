"""Combines values with a tensor at the positions of an index tensor: scatter, index_add, index_reduce, put."""

from __future__ import annotations

import math

import torch

from clave import schema
from clave.builder import Int, Slot
from clave.dtypes import torch_dtype, torch_name
from clave.errors import Unsupported
from clave.lowering.index import index_slot
from clave.lowering.registry import WIDE, Context, Filled, Scalar, Tensor, lower
from clave.lowering.reshape import expand, reshape
from clave.lowering.slice import slice_
from clave.lowering.steps import cast_to, compute, convert, is_float, opmath, slot_as, step

D = schema.DType
K = schema.ScatterKind


def scatter_into(
    c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, kind: K = K.assign, wrap: bool = False
) -> Tensor:
    """Combines source[p] with x at p, with the coordinate along `axis` replaced by index[p]. source is cut to the shape
    of index."""
    if kind != K.assign and x.dtype in WIDE:
        raise Unsupported(f"{torch_name(x.dtype)} combined")
    if any(d == 0 for d in index.shape):
        return x
    if x.rank == 0:
        return reshape(c, scatter_into(c, *_rows(c, x), 0, *_rows(c, index, source), kind, wrap), ())
    if index.rank == 0:
        index, source = _rows(c, index, source)
    for d, size in enumerate(index.shape):
        source = slice_(c, source, d, 0, size, size)
    source = expand(c, _slot(c, slot_as(c, source, x.dtype) if isinstance(source, Slot) else source), index.shape)
    return c.emit(
        "Scatter",
        kind=kind,
        x=c.tensor(x),
        axis=axis % x.rank,
        index=index_slot(c, index),
        source=source,
        wrap=wrap,
        shape=x.shape,
        dtype=x.dtype,
    )


def _rows(c: Context, *tensors: Tensor) -> list[Tensor]:
    """Returns tensors without dimensions as rows of one element."""
    return [reshape(c, t, (1,)) if t.rank == 0 else t for t in tensors]


def _slot(c: Context, x: Tensor) -> Slot:
    """Returns a tensor as a slot. A Filled tensor is a single element that broadcasts."""
    return x if isinstance(x, Slot) else c.tensor(Filled(x.value, x.dtype, (1,) * x.rank))


def filled(value: Scalar, dtype: schema.DType, shape: tuple[Int, ...]) -> Filled:
    return Filled(convert(value, dtype), dtype, shape)


def along(c: Context, index: Tensor, axis: int, shape: tuple[Int, ...]) -> Slot:
    """Returns a list of indices along `axis`, repeated over the other dimensions of `shape`."""
    n = c.sizes.product(index.shape)
    row = reshape(c, index_slot(c, index), tuple(n if d == axis else 1 for d in range(len(shape))))
    return c.tensor(expand(c, row, shape))


@lower("aten.scatter.src")
def scatter_src(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    return scatter_into(c, x, axis, index, source)


@lower("aten.scatter.value")
def scatter_value(c: Context, x: Tensor, axis: int, index: Tensor, value: Scalar) -> Tensor:
    return scatter_into(c, x, axis, index, filled(value, x.dtype, index.shape))


_REDUCE = {"add": K.add, "multiply": K.mul}


@lower("aten.scatter.reduce")
def scatter_src_reduce(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str) -> Tensor:
    return scatter_into(c, x, axis, index, source, _REDUCE[reduce])


@lower("aten.scatter.value_reduce")
def scatter_value_reduce(c: Context, x: Tensor, axis: int, index: Tensor, value: Scalar, reduce: str) -> Tensor:
    return scatter_into(c, x, axis, index, filled(value, x.dtype, index.shape), _REDUCE[reduce])


@lower("aten.scatter_add.default")
def scatter_add(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor) -> Tensor:
    return scatter_into(c, x, axis, index, source, K.add)


_KINDS = {"sum": K.add, "mean": K.add, "prod": K.mul, "amax": K.max, "amin": K.min}


def _identity(reduce: str, dtype: schema.DType) -> Scalar:
    """Returns the identity element of a reduction."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if is_float(dtype):
        return -math.inf if reduce == "amax" else math.inf
    if dtype == D.BOOL:
        return reduce == "amin"
    info = torch.iinfo(torch_dtype(dtype))
    return info.min if reduce == "amax" else info.max


def _reduced(
    c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    if any(d == 0 for d in index.shape):
        return x
    dtype = x.dtype
    if reduce == "mean":  # rounds once, after the division
        x, source = cast_to(c, x, opmath(dtype)), cast_to(c, source, opmath(dtype))
    if not include_self:
        x = scatter_into(c, x, axis, index, filled(_identity(reduce, x.dtype), x.dtype, index.shape))
    total = scatter_into(c, x, axis, index, source, _KINDS[reduce])
    if reduce != "mean":
        return total
    base = filled(int(include_self), D.I64, x.shape)
    hits = scatter_into(c, base, axis, index, filled(1, D.I64, index.shape), K.add)
    count = step("maximum", D.I64, hits, 1)
    kind = "div" if is_float(dtype) else "floor_divide"
    return compute(c, step(kind, total.dtype, total, count), x.shape, dtype)


@lower("aten.scatter_reduce.two")
def scatter_reduce(
    c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    return _reduced(c, x, axis, index, source, reduce, include_self)


def _listed(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor) -> tuple[Tensor, int, Tensor, Tensor]:
    """Returns the operands of an op with a list of indices as operands of a scatter."""
    x, index, source = _rows(c, x, index, source)
    axis %= x.rank
    return x, axis, along(c, index, axis, source.shape), source


@lower("aten.index_add.default")
def index_add(c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, alpha: Scalar) -> Tensor:
    wide: Tensor = x
    if alpha != 1:  # rounds once, after the product and the sum
        wide = cast_to(c, x, opmath(x.dtype))
        source = compute(c, step("mul", wide.dtype, source, alpha), source.shape, wide.dtype)
    return cast_to(c, reshape(c, scatter_into(c, *_listed(c, wide, axis, index, source), K.add), x.shape), x.dtype)


@lower("aten.index_reduce.default")
def index_reduce(
    c: Context, x: Tensor, axis: int, index: Tensor, source: Tensor, reduce: str, include_self: bool
) -> Tensor:
    return reshape(c, _reduced(c, *_listed(c, x, axis, index, source), reduce, include_self), x.shape)


@lower("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(c: Context, x: Tensor, axis: int, index: Tensor, value: Tensor | Scalar) -> Tensor:
    row, flat = _rows(c, x, index)
    axis %= row.rank
    shape = (*row.shape[:axis], flat.shape[0], *row.shape[axis + 1 :])
    if isinstance(value, Slot | Filled):
        source: Tensor = expand(c, slot_as(c, reshape(c, value, (1,) * row.rank), x.dtype), shape)
    else:
        source = filled(value, x.dtype, shape)
    out = scatter_into(c, row, axis, along(c, flat, axis, shape), source, wrap=True)
    return reshape(c, out, x.shape)


@lower("aten.put.default")
def put(c: Context, x: Tensor, index: Tensor, source: Tensor, accumulate: bool) -> Tensor:
    """Lowers put, whose positions count in the flattened tensor."""
    flat, at, values = (reshape(c, t, (c.sizes.product(t.shape),)) for t in (x, index, source))
    return reshape(c, scatter_into(c, flat, 0, at, values, K.add if accumulate else K.assign, wrap=True), x.shape)


@lower("aten.masked_scatter.default")
def masked_scatter(c: Context, x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Writes the elements of source, in order, to the places where the mask is true."""
    if any(d == 0 for d in source.shape):
        return x
    n = c.sizes.product(c.shape())
    flat = slot_as(c, reshape(c, expand(c, mask, c.shape()), (n,)), D.I64)
    order = c.emit("Cumulate", kind=schema.CumulateKind.sum, x=flat, axis=0, shape=(n,), dtype=D.I64)
    at = compute(c, step("where", D.I64, flat, step("sub", D.I64, order, 1), 0), (n,), D.I64)
    values = c.tensor(reshape(c, source, (c.sizes.product(source.shape),)))
    taken = c.emit("IndexSelect", x=values, axis=0, index=c.tensor(at), shape=(n,), dtype=values.dtype)
    return compute(c, step("where", c.dtype(), mask, reshape(c, taken, c.shape()), x))


@lower("aten.one_hot.default")
def one_hot(c: Context, index: Tensor, n: int) -> Tensor:
    at = reshape(c, index, (*index.shape, 1))
    return scatter_into(c, filled(0, c.dtype(), c.shape()), -1, at, filled(1, c.dtype(), at.shape))
