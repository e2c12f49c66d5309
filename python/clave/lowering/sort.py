"""Sorting, and ops that use sorted rows: topk, kthvalue, median, mode."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.dtypes import torch_name
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.registry import WIDE, Context, Filled, Tensor, lower
from clave.lowering.reshape import expand, reshape
from clave.lowering.slice import END, slice_
from clave.lowering.steps import cast, compute, has_fractions, is_float, slot_as, step

D = schema.DType


def ordered(
    c: Context, x: Tensor, axis: int, descending: bool = False, k: Int | None = None, places: bool = True
) -> tuple[Slot, Slot | None]:
    """Returns the first k (None: all) elements of x in order along axis and, with `places`, their indices (i64)."""
    x = c.tensor(x)
    if x.dtype in WIDE:
        return _ordered_stored(c, x, axis, descending, k, places)
    shape = x.shape if k is None else (*x.shape[:axis], k, *x.shape[axis + 1 :])
    indices = c.builder.temp(D.I64, shape) if places else None
    more = {} if indices is None else {"indices": indices}
    out = c.emit("Sort", x=x, axis=axis, descending=descending, **more, shape=shape, dtype=x.dtype)
    return out, indices


def _ordered_stored(
    c: Context, x: Slot, axis: int, descending: bool, k: Int | None, places: bool
) -> tuple[Slot, Slot | None]:
    """Sorts unsigned integers as wider ones. For 64 bits, subtracts 2^63, which flips the first bit."""
    if has_fractions(x.dtype):
        raise Unsupported(f"the order of {torch_name(x.dtype)}")
    wide, last = WIDE[x.dtype], -(2**63)

    def with_flipped_sign(y: Any) -> Any:
        return step("bitwise_xor", D.I64, y, last) if x.dtype == D.U64 else y

    key = slot_as(c, compute(c, with_flipped_sign(cast(x, wide)), x.shape, wide), wide)
    out, indices = ordered(c, key, axis, descending, k, places)
    return slot_as(c, compute(c, cast(with_flipped_sign(out), x.dtype), out.shape, x.dtype), x.dtype), indices


def picked(c: Context, x: Tensor, axis: int, index: Tensor) -> Slot:
    """Returns x[..., index[..., 0, ...], ...]. index has size 1 along axis."""
    return c.emit("Gather", x=c.tensor(x), axis=axis, index=c.tensor(index), shape=index.shape, dtype=x.dtype)


def _row(c: Context, x: Tensor, axis: int) -> tuple[Tensor, int]:
    """Returns x with at least one dimension, and the axis."""
    return (x, axis % x.rank) if x.rank else (reshape(c, x, (1,)), 0)


def _pair(c: Context, values: Tensor | None, indices: Tensor | None) -> list[Tensor | None]:
    """Returns values and indices in the shapes of the call's results."""
    return [None if t is None else reshape(c, t, c.shape(i)) for i, t in enumerate((values, indices))]


@lower("aten.sort.default")
def sort(c: Context, x: Tensor, axis: int, descending: bool) -> list[Tensor | None]:
    x, axis = _row(c, x, axis)
    return _pair(c, *ordered(c, x, axis, descending, places=c.used(1)))


@lower("aten.sort.stable")
def sort_stable(c: Context, x: Tensor, _: bool | None, axis: int, descending: bool) -> list[Tensor | None]:
    return sort(c, x, axis, descending)


@lower("aten.argsort.default", "aten.argsort.stable")
def argsort(c: Context, x: Tensor, *rest: int) -> Tensor:
    """Lowers argsort(x, dim, descending) and argsort(x, *, stable, dim, descending)."""
    axis, descending = rest[-2:]
    x, axis = _row(c, x, axis)
    indices = ordered(c, x, axis, bool(descending))[1]
    assert indices is not None
    return reshape(c, indices, c.shape())


@lower("aten.topk.default")
def topk(c: Context, x: Tensor, k: Int, axis: int, largest: bool, _: bool) -> list[Tensor | None]:
    """Lowers topk. The result is always sorted. Among equal elements it selects the first ones, whereas torch may
    select any."""
    x, axis = _row(c, x, axis)
    return _pair(c, *ordered(c, x, axis, largest, k if x.rank else 1, c.used(1)))


@lower("aten.kthvalue.default")
def kthvalue(c: Context, x: Tensor, k: Int, axis: int, keepdim: bool) -> list[Tensor | None]:
    x, axis = _row(c, x, axis)
    values, indices = ordered(c, x, axis, False, k, c.used(1))
    last = c.sizes.subtract(k, 1)
    kth = [None if t is None else slice_(c, t, axis, last, END, 1) for t in (values, indices)]
    return _pair(c, *kth)


# ---------------------------------------------------------------- median


def _count(c: Context, x: Tensor, axis: int, e: object) -> Slot:
    """Returns the number of x's elements along axis that satisfy a BOOL expression, with size 1 along axis."""
    shape = _one(x.shape, axis)
    return c.emit(
        "Reduce", kind=schema.ReduceKind.sum, x=slot_as(c, compute(c, e, x.shape, D.BOOL), D.I64), axes=[axis],
        keepdim=True, shape=shape, dtype=D.I64,
    )  # fmt: skip


def _one(shape: tuple[Int, ...], axis: int) -> tuple[Int, ...]:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _median(c: Context, x: Tensor, axis: int, ignore_nan: bool, places: bool) -> tuple[Tensor, Tensor | None]:
    """Returns the lower median along axis, with size 1 there, and its index. If x has a NaN that is not ignored, the
    first NaN is the median; NaN comes first in descending order. Half of the sorted elements suffice."""
    n = x.shape[axis]
    upper = c.sizes.divide(n, 2)
    descending = is_float(x.dtype) and not ignore_nan
    values, indices = ordered(c, x, axis, descending, c.sizes.add(upper, 1), places)
    both = (values, indices)
    if not is_float(x.dtype):
        at = c.sizes.divide(c.sizes.subtract(n, 1), 2)
        return tuple(None if t is None else slice_(c, t, axis, at, c.sizes.add(at, 1), 1) for t in both)
    shape = _one(x.shape, axis)
    if ignore_nan:
        rest = step("sub", D.I64, n, _count(c, x, axis, step("isnan", x.dtype, x)))
        at = step("maximum", D.I64, step("shift_right", D.I64, step("sub", D.I64, rest, 1), 1), 0)
    else:
        greatest = slice_(c, values, axis, 0, 1, 1)
        at = step("where", D.I64, step("isnan", x.dtype, greatest), 0, upper)
    middle = compute(c, at, shape, D.I64)
    return tuple(None if t is None else picked(c, t, axis, middle) for t in both)


@lower("aten.median.dim", "aten.nanmedian.dim")
def median_dim(c: Context, x: Tensor, axis: int, keepdim: bool) -> list[Tensor | None]:
    x, axis = _row(c, x, axis)
    return _pair(c, *_median(c, x, axis, "nan" in c.op(), c.used(1)))


@lower("aten.median.default", "aten.nanmedian.default")
def median(c: Context, x: Tensor) -> Tensor:
    n = c.sizes.product(x.shape)
    if n == 0:
        if not is_float(x.dtype):
            raise Unsupported("the median of no integers")
        return Filled(float("nan"), x.dtype, ())
    flat = reshape(c, x, (n,))
    return reshape(c, _median(c, flat, 0, "nan" in c.op(), False)[0], ())


# ---------------------------------------------------------------- mode


@lower("aten.mode.default")
def mode(c: Context, x: Tensor, axis: int, keepdim: bool) -> list[Tensor | None]:
    """Returns the least of the most frequent elements, and the index of its last occurrence. In sorted order, this
    element ends the first of the longest runs of equal elements. Every NaN is a separate run."""
    x, axis = _row(c, x, axis)
    n = x.shape[axis]
    values, indices = ordered(c, x, axis)
    if isinstance(n, int) and n == 1:
        return _pair(c, values, indices)
    rest = c.sizes.subtract(n, 1)
    shape = (*x.shape[:axis], rest, *x.shape[axis + 1 :])
    before, after = slice_(c, values, axis, 0, rest, rest), slice_(c, values, axis, 1, END, rest)
    along = expand(c, reshape(c, counting(c, 1, rest), (rest, *(1,) * (x.rank - 1 - axis))), shape)
    starts = compute(c, step("where", D.I64, step("ne", x.dtype, before, after), along, 0), shape, D.I64)
    first = Filled(0, D.I64, _one(shape, axis))
    starts = c.emit("Cat", xs=[c.tensor(first), c.tensor(starts)], axis=axis, shape=x.shape, dtype=D.I64)
    run = c.emit("Cumulate", kind=schema.CumulateKind.max, x=starts, axis=axis, shape=x.shape, dtype=D.I64)
    place = reshape(c, counting(c, 0, n), (n, *(1,) * (x.rank - 1 - axis)))
    length = compute(c, step("sub", D.I64, place, run), x.shape, D.I64)
    longest = c.emit(
        "ArgReduce", kind=schema.ArgReduceKind.argmax, x=c.tensor(length), axis=axis, keepdim=True,
        shape=_one(x.shape, axis), dtype=D.I64,
    )  # fmt: skip
    return _pair(c, picked(c, values, axis, longest), picked(c, indices, axis, longest))
