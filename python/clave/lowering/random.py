"""Random tensors. Uniform, normal and integer numbers are ops; other distributions are computed from them.

The numbers differ from torch's, the distributions do not. Every node of a program has its own stream, see
docs/reference/random.md.
"""

from __future__ import annotations

import math
from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import insert, reshape
from clave.lowering.slice import END, slice_
from clave.lowering.sort import ordered
from clave.lowering.steps import Expr, Operand, cast_to, compute, is_float, opmath, slot_as, step

D = schema.DType
_K = schema.RandomKind


def _draw(c: Context, kind: schema.RandomKind, shape: tuple[Int, ...], dtype: schema.DType, **fields: Any) -> Slot:
    stream = c.builder.program.next_stream()
    return c.emit("Random", kind=kind, stream=stream, **fields, shape=shape, dtype=dtype)


def uniform(c: Context, shape: tuple[Int, ...], dtype: schema.DType) -> Slot:
    """Returns uniform numbers in [0, 1)."""
    return _draw(c, _K.uniform, shape, dtype)


def _normal(c: Context) -> Slot:
    return _draw(c, _K.normal, c.shape(), c.dtype())


@lower("aten.rand.default", "aten.rand_like.default")
def rand(c: Context, *_: Any) -> Tensor:
    return uniform(c, c.shape(), c.dtype())


@lower("aten.randn.default", "aten.randn_like.default")
def randn(c: Context, *_: Any) -> Tensor:
    return _normal(c)


def _integers(c: Context, low: Int, high: Int) -> Tensor:
    return cast_to(c, _draw(c, _K.integer, c.shape(), D.I64, low=low, high=high), c.dtype())


@lower("aten.randint.default", "aten.randint_like.default")
def randint(c: Context, *arguments: Any) -> Tensor:
    """Lowers randint(high, size) and randint_like(x, high)."""
    return _integers(c, 0, arguments[1 if "like" in c.op() else 0])


@lower("aten.randint.low", "aten.randint_like.low_dtype")
def randint_low(c: Context, *arguments: Any) -> Tensor:
    """Lowers randint(low, high, size) and randint_like(x, low, high)."""
    first = 1 if "like" in c.op() else 0
    return _integers(c, arguments[first], arguments[first + 1])


@lower("aten.randperm.default")
def randperm(c: Context, n: Int, *_: Any) -> Tensor:
    """Returns the order of n random numbers of 63 bits."""
    keys = _draw(c, _K.integer, (n,), D.I64, low=0, high=2**63 - 1)
    places = ordered(c, keys, 0)[1]
    assert places is not None
    return cast_to(c, places, c.dtype())


# ---------------------------------------------------------------- made of uniform numbers


def _of_uniform(c: Context, f: Any) -> Tensor:
    """Returns f(u) for u in [0, 1), computed in f32 or f64 and rounded once."""
    dtype = opmath(c.dtype()) if is_float(c.dtype()) else D.F32
    return compute(c, f(dtype, uniform(c, c.shape(), dtype)))


def _log_rest(dtype: schema.DType, u: Operand) -> Expr:
    """Returns log(1 - u), which is finite."""
    return step("log1p", dtype, step("neg", dtype, u))


@lower("aten.bernoulli.default", "aten.bernoulli.p", "aten.bernoulli.Tensor", "aten.bernoulli_.float")
def bernoulli(c: Context, x: Tensor, p: Tensor | Scalar | None = None, *_: Any) -> Tensor:
    """Returns 1 with the probability p, or x without p."""
    p = x if p is None else p
    return _of_uniform(c, lambda dtype, u: step("lt", dtype, u, p))


@lower("aten.uniform.default")
def uniform_between(c: Context, _: Tensor, low: Scalar, high: Scalar, *__: Any) -> Tensor:
    return _of_uniform(c, lambda d, u: step("add", d, step("mul", d, u, float(high) - float(low)), float(low)))


@lower("aten.exponential.default")
def exponential(c: Context, _: Tensor, rate: Scalar, *__: Any) -> Tensor:
    return _of_uniform(c, lambda d, u: step("mul", d, _log_rest(d, u), -1.0 / float(rate)))


@lower("aten.geometric.default")
def geometric(c: Context, _: Tensor, p: Scalar, *__: Any) -> Tensor:
    """Returns the number of trials up to the first success: ceil(log(1 - u) / log(1 - p)), at least 1."""
    if p == 1:
        return _of_uniform(c, lambda d, u: step("add", d, step("mul", d, u, 0.0), 1.0))
    scale = 1.0 / math.log1p(-float(p))
    return _of_uniform(c, lambda d, u: step("maximum", d, step("ceil", d, step("mul", d, _log_rest(d, u), scale)), 1.0))


@lower("aten.cauchy.default")
def cauchy(c: Context, _: Tensor, median: Scalar, sigma: Scalar, *__: Any) -> Tensor:
    def f(d: schema.DType, u: Operand) -> Operand:
        angle = step("mul", d, step("sub", d, u, 0.5), math.pi)
        return step("add", d, step("mul", d, step("tan", d, angle), float(sigma)), float(median))

    return _of_uniform(c, f)


# ---------------------------------------------------------------- made of normal numbers


def _shifted(c: Context, mean: Operand, deviation: Operand, then: str = "") -> Tensor:
    """Returns mean + deviation * z for a normal z, or the function `then` of it."""
    d = opmath(c.dtype())
    z = _draw(c, _K.normal, c.shape(), d)
    e = step("add", d, step("mul", d, z, deviation), mean)
    return compute(c, step(then, d, e) if then else e)


@lower("aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.float_float")
def normal(c: Context, mean: Tensor | Scalar, deviation: Tensor | Scalar, *_: Any) -> Tensor:
    return _shifted(c, mean, deviation)


@lower("aten.normal_functional.default")
def normal_functional(c: Context, _: Tensor, mean: Scalar, deviation: Scalar, *__: Any) -> Tensor:
    return _shifted(c, mean, deviation)


@lower("aten.log_normal.default")
def log_normal(c: Context, _: Tensor, mean: Scalar, deviation: Scalar, *__: Any) -> Tensor:
    return _shifted(c, mean, deviation, "exp")


# ---------------------------------------------------------------- multinomial


@lower("aten.multinomial.default")
def multinomial(c: Context, weights: Tensor, n: Int, replacement: bool, *_: Any) -> Tensor:
    """Draws n classes per row. weights: (n_classes) or (rows, n_classes)."""
    rows = weights if weights.rank == 2 else insert(c, weights, 0)
    draw = _with_replacement if replacement else _without_replacement
    return reshape(c, draw(c, rows, n), c.shape())


def _without_replacement(c: Context, rows: Tensor, n: Int) -> Tensor:
    """Draws an exponential time over its weight for each class, and returns the n classes with the shortest times."""
    d = opmath(rows.dtype)
    u = uniform(c, rows.shape, d)
    rate = step("div", d, rows, step("neg", d, _log_rest(d, u)))
    none = step("where", d, step("gt", d, rows, 0.0), rate, -1.0)  # infinite for u = 0, so that the class is drawn
    score = slot_as(c, compute(c, none, rows.shape, d), d)
    out = ordered(c, score, 1, True, n)[1]
    assert out is not None
    return out


def _with_replacement(c: Context, rows: Tensor, n: Int) -> Tensor:
    """Returns the places of u times the sum of the weights among their running sums. A class without weight repeats the
    sum before it, so that it is never drawn, however the sums are rounded."""
    d, shape = opmath(rows.dtype), rows.shape
    sums = c.emit("Cumulate", kind=schema.CumulateKind.sum, x=slot_as(c, rows, d), axis=1, shape=shape, dtype=d)
    sums = slot_as(c, compute(c, step("where", d, step("gt", d, rows, 0.0), sums, 0.0), shape, d), d)
    sums = c.emit("Cumulate", kind=schema.CumulateKind.max, x=sums, axis=1, shape=shape, dtype=d)
    last = c.sizes.subtract(shape[1], 1)
    total = slice_(c, sums, 1, last, END, 1)
    places = (shape[0], n)
    at = slot_as(c, compute(c, step("mul", d, uniform(c, places, d), total), places, d), d)
    found = c.emit("SearchSorted", boundaries=sums, x=at, right=True, shape=places)
    return compute(c, step("minimum", D.I64, found, last), places, D.I64)
