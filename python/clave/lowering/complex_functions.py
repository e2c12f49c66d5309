"""Functions of complex tensors as expressions over their parts; also sums, products and tensors of one number."""

from __future__ import annotations

import cmath
import math
from typing import Any

import torch

from clave import schema
from clave.builder import Int
from clave.dtypes import torch_dtype
from clave.errors import Unsupported
from clave.lowering.complex import Number, join, parts, quotient
from clave.lowering.registry import LOWERINGS, Complex, Context, Tensor, lower_complex
from clave.lowering.reshape import permute, reshape
from clave.lowering.slice import select
from clave.lowering.steps import Expr, Operand, compute, opmath, slot_as, step

D = schema.DType


def _both(c: Context, x: Any) -> tuple[D, Operand, Operand]:
    """Returns the compute dtype and the parts. The imaginary part of a real operand is 0."""
    real, imag = parts(c, x)
    return opmath(c.dtype()), real, 0.0 if imag is None else imag


def _number(x: Operand) -> bool:
    return isinstance(x, int | float)


def _log(t: D, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Returns the logarithm of the length, and the angle. The length does not overflow, and near 1 its difference from
    1 is not lost."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        found = cmath.log(complex(a, b)) if a or b else complex(-math.inf)
        return found.real, found.imag
    length, big = step("hypot", t, a, b), _is_big(t, a, b)
    quarter = step("hypot", t, step("mul", t, a, 0.25), step("mul", t, b, 0.25))
    wide = step("add", t, step("log", t, quarter), math.log(4))
    sizes = step("abs", t, a), step("abs", t, b)
    large, small = step("maximum", t, *sizes), step("minimum", t, *sizes)
    over = step("mul", t, step("sub", t, large, 1.0), step("add", t, large, 1.0))
    near = step("mul", t, step("log1p", t, step("add", t, over, step("mul", t, small, small))), 0.5)
    is_near = step("logical_and", D.BOOL, step("gt", t, length, 0.5), step("lt", t, length, 2.0))
    found = step("where", t, big, wide, step("where", t, is_near, near, step("log", t, length)))
    return found, step("atan2", t, b, a)


def _is_big(t: D, a: Operand, b: Operand) -> Expr:
    """True if the length could overflow."""
    limit = torch.finfo(torch_dtype(t)).max / 4
    sizes = [abs(p) if isinstance(p, int | float) else step("abs", t, p) for p in (a, b)]
    return step("gt", t, step("maximum", t, *sizes), limit)


def _without_nan(t: D, product: Expr, zero: Expr, turn: Expr, infinite: Operand | None) -> Expr:
    """Returns a product of a size and `turn`, with 0 if one factor is exactly 0 and the other is not finite. infinite:
    the result if it is infinite and `turn` is NaN; None: the result is NaN then."""
    none = step("logical_or", D.BOOL, zero, step("eq", t, turn, 0.0))
    found = step("where", t, step("logical_and", D.BOOL, step("isnan", t, product), none), 0.0, product)
    if infinite is None:
        return found
    is_infinite = step("logical_and", D.BOOL, step("isinf", t, infinite), step("isnan", t, turn))
    return step("where", t, is_infinite, infinite, found)


def _exp(t: D, a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Returns exp(a + bi), computed with two factors exp(a / 2), which overflow later than exp(a)."""
    half, zero = step("exp", t, step("mul", t, a, 0.5)), step("eq", t, a, -math.inf)
    is_infinite = step("where", t, step("isinf", t, a), half, 0.0)
    real, imag = step("cos", t, b), step("sin", t, b)
    products = [step("mul", t, half, step("mul", t, half, turn)) for turn in (real, imag)]
    return _without_nan(t, products[0], zero, real, is_infinite), _without_nan(t, products[1], zero, imag, None)


@lower_complex("aten.exp.default")
def exp(c: Context, x: Complex) -> Complex:
    return join(c, *_exp(*_both(c, x)))


# ---------------------------------------------------------------- functions


@lower_complex("aten.sqrt.default")
def sqrt(c: Context, x: Complex) -> Complex:
    """Computes the larger part of the result as t = sqrt((|a| + |x|) / 2), and the other as |b| / (2 t)."""
    t, a, b = _both(c, x)
    big, infinite = _is_big(t, a, b), step("isinf", t, b)
    tiny = step("lt", t, step("maximum", t, step("abs", t, a), step("abs", t, b)), torch.finfo(torch_dtype(t)).tiny * 4)
    up = step("where", t, big, 0.25, step("where", t, tiny, 2.0**60, 1.0))
    down = step("where", t, big, 2.0, step("where", t, tiny, 2.0**-30, 1.0))
    u, v = step("mul", t, a, up), step("mul", t, b, up)
    half = step("mul", t, step("add", t, step("abs", t, u), step("hypot", t, u, v)), 0.5)
    root, size = step("sqrt", t, half), step("abs", t, v)
    none = step("logical_or", D.BOOL, step("eq", t, root, 0.0), infinite)
    rest = step("where", t, none, size, step("div", t, size, step("mul", t, root, 2.0)))
    root = step("where", t, infinite, size, root)
    large, small = step("mul", t, root, down), step("mul", t, rest, down)
    positive = step("ge", t, a, 0.0)
    real, imag = step("where", t, positive, large, small), step("where", t, positive, small, large)
    return join(c, real, step("copysign", t, imag, b))


@lower_complex("aten.log.default", "aten.log2.default", "aten.log10.default")
def log(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    base = c.op().removeprefix("log")
    found = _log(t, a, b)
    return join(c, *(step("div", t, p, math.log(int(base))) if base else p for p in found))


# Each part is a hyperbolic function times a trigonometric one. The number is the part of the result that is infinite
# even if the angle has no sine.
_PRODUCTS = {
    "sin": (("cosh", "sin"), ("sinh", "cos"), 1),
    "cos": (("cosh", "cos"), ("sinh", "sin"), 0),
    "sinh": (("sinh", "cos"), ("cosh", "sin"), 0),
    "cosh": (("cosh", "cos"), ("sinh", "sin"), 0),
}


@lower_complex(*(f"aten.{name}.default" for name in _PRODUCTS))
def trigonometric(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    name = c.op()
    size, angle = (a, b) if name.endswith("h") else (b, a)
    *pairs, is_infinite = _PRODUCTS[name]
    real, imag = (
        _hyperbolic(t, grown, size, step(turn, t, angle), i == is_infinite) for i, (grown, turn) in enumerate(pairs)
    )
    return join(c, real, step("neg", t, imag) if name == "cos" else imag)


def _hyperbolic(t: D, name: str, x: Operand, turn: Expr, is_infinite: bool) -> Expr:
    """Returns sinh(x) or cosh(x) times `turn`. For a large x it multiplies two factors exp(|x| / 2), which overflow
    later than exp(|x|)."""
    size = step("abs", t, x)
    half = step("exp", t, step("mul", t, size, 0.5))
    far = step("gt", t, size, 80.0)
    plain = step(name, t, x)
    ends = step("mul", t, half, 0.5)
    signed = step("copysign", t, ends, x) if name == "sinh" else ends
    inner = step("where", t, far, signed, plain)
    product = step("mul", t, step("where", t, far, half, 1.0), step("mul", t, inner, turn))
    infinite = step("where", t, step("isinf", t, x), ends, 0.0) if is_infinite else None
    return _without_nan(t, product, step("eq", t, inner, 0.0), turn, infinite)


def _tanh(t: D, a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Returns tanh(a + bi) = (sinh a cosh a + i sin b cos b) / (sinh(a)^2 + cos(b)^2). For a large |a| it is
    +-1 + 4i sin b cos b exp(-2 |a|)."""
    size, s, turn = step("abs", t, a), step("sinh", t, a), step("cos", t, b)
    both = step("mul", t, step("sin", t, b), turn)
    whole = step("add", t, step("mul", t, s, s), step("mul", t, turn, turn))
    far = step("gt", t, size, 22.0 if t == D.F64 else 11.0)
    is_infinite = step("isinf", t, a)
    one = step("copysign", t, 1.0, a)
    real = step(
        "where",
        t,
        far,
        step("add", t, one, step("mul", t, both, 0.0)),
        step("div", t, step("mul", t, s, step("cosh", t, a)), whole),
    )
    faded = step("mul", t, step("mul", t, both, 4.0), step("exp", t, step("mul", t, size, -2.0)))
    imag = step("where", t, far, faded, step("div", t, both, whole))
    real = step("where", t, is_infinite, one, step("where", t, step("eq", t, a, 0.0), a, real))
    return real, step("where", t, is_infinite, 0.0, step("where", t, step("eq", t, b, 0.0), b, imag))


@lower_complex("aten.tanh.default", "aten.tan.default")
def tangent(c: Context, x: Complex) -> Complex:
    """Lowers tanh and tan. tan(a + bi) = -i tanh(i (a + bi)), which is tanh(b + ai) with exchanged parts."""
    t, a, b = _both(c, x)
    return join(c, *_tanh(t, a, b)) if c.op() == "tanh" else join(c, *reversed(_tanh(t, b, a)))


@lower_complex("aten.reciprocal.default")
def reciprocal(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    return join(c, *quotient(t, (1.0, 0.0), (a, b)))


@lower_complex("aten.rsqrt.default")
def rsqrt(c: Context, x: Complex) -> Complex:
    return reciprocal(c, sqrt(c, x))


@lower_complex("aten.sgn.default")
def sgn(c: Context, x: Complex) -> Complex:
    """Returns x / |x|, and 0 for 0."""
    t, a, b = _both(c, x)
    length = step("hypot", t, a, b)
    zero = step("eq", t, length, 0.0)
    return join(c, *(step("where", t, zero, 0.0, step("div", t, p, length)) for p in (a, b)))


@lower_complex("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(c: Context, x: Any, y: Any) -> Complex:
    """Returns exp(y log(x)). Uses products, roots and quotients for the same y as torch. x^0 is 1."""
    if isinstance(y, int | float) and y in (-2, -1, -0.5, 0.5, 1, 2, 3):
        return _small_power(c, x, y)
    t, a, b = _both(c, x)
    _, e, f = _both(c, y)
    length, angle = _log(t, a, b)
    grown = step("sub", t, _times(t, e, length), _times(t, f, angle))
    new_angle = step("add", t, _times(t, f, length), _times(t, e, angle))
    found = _exp(t, grown, new_angle)
    flat = _is_zero(t, e, f)
    if isinstance(flat, bool):
        return join(c, 1.0, 0.0) if flat else join(c, *found)
    return join(c, *(step("where", t, flat, v, p) for v, p in zip((1.0, 0.0), found, strict=True)))


def _small_power(c: Context, x: Any, y: float) -> Complex:
    base = sqrt(c, x) if abs(y) == 0.5 else x if abs(y) == 1 else _product_of(c, x, int(abs(y)))
    return base if y > 0 else reciprocal(c, base)


def _times(t: D, a: Operand, b: Operand) -> Operand:
    return a * b if _number(a) and _number(b) else step("mul", t, a, b)  # type: ignore[operator]


def _is_zero(t: D, a: Operand, b: Operand) -> Expr | bool:
    zeros = [p == 0 if isinstance(p, int | float) else step("eq", t, p, 0.0) for p in (a, b)]
    unknown = [z for z in zeros if isinstance(z, Expr)]
    if False in zeros or not unknown:
        return all(zeros)
    return unknown[0] if len(unknown) == 1 else step("logical_and", D.BOOL, *unknown)


def _product_of(c: Context, x: Any, n: int) -> Complex:
    """Returns x^n for n >= 1."""
    t, a, b = _both(c, x)
    real, imag = a, b
    for _ in range(n - 1):
        real, imag = (
            step("sub", t, step("mul", t, real, a), step("mul", t, imag, b)),
            step("add", t, step("mul", t, real, b), step("mul", t, imag, a)),
        )
    return join(c, real, imag)


# ---------------------------------------------------------------- comparison, choice


@lower_complex("aten.eq.Tensor", "aten.eq.Scalar", "aten.ne.Tensor", "aten.ne.Scalar")
def equal(c: Context, x: Any, y: Any) -> Tensor:
    source = next(v for v in (x, y) if isinstance(v, Complex)).pair.dtype
    kind = c.op()
    (a, b), (e, f) = _parts_of(c, x), _parts_of(c, y)
    found = (step(kind, source, a, e), step(kind, source, b, f))
    return compute(c, step("logical_and" if kind == "eq" else "logical_or", D.BOOL, *found))


@lower_complex("aten.isnan.default", "aten.isinf.default")
def is_nan_or_inf(c: Context, x: Complex) -> Tensor:
    a, b = (step(c.op(), x.pair.dtype, p) for p in _parts_of(c, x))
    return compute(c, step("logical_or", D.BOOL, a, b))


def _parts_of(c: Context, x: Any) -> tuple[Operand, Operand]:
    """Returns the parts in their own dtype, for ops whose result is not complex."""
    if isinstance(x, Complex):
        return select(c, x.pair, -1, 0), select(c, x.pair, -1, 1)
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0.0)


@lower_complex("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(c: Context, condition: Tensor, x: Any, y: Any) -> Complex:
    t, a, b = _both(c, x)
    _, e, f = _both(c, y)
    return join(c, step("where", t, condition, a, e), step("where", t, condition, b, f))


@lower_complex("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c: Context, x: Complex, mask: Tensor, value: Any) -> Complex:
    return where(c, mask, value, x)


# ---------------------------------------------------------------- sums, products


@lower_complex("aten.sum.default", "aten.mean.default")
def whole_sum(c: Context, x: Complex, *_: Any) -> Complex:
    return _over(c, x, list(range(x.pair.rank - 1)), False)


@lower_complex("aten.sum.dim_IntList", "aten.mean.dim")
def sum_over(c: Context, x: Complex, axes: list[int] | None, keepdim: bool, _: Any) -> Complex:
    rank = x.pair.rank - 1
    return _over(c, x, [a % rank for a in axes] if axes else list(range(rank)), keepdim)


@lower_complex("aten.cumsum.default")
def cumulated(c: Context, x: Complex, axis: int, *_: Any) -> Complex:
    rank = x.pair.rank - 1
    return Complex(c.tensor(LOWERINGS["aten.cumsum.default"](c, x.pair, axis % rank))) if rank else x


def _over(c: Context, x: Complex, axes: list[int], keepdim: bool) -> Complex:
    if not axes:
        return x
    kind = schema.ReduceKind.mean if "mean" in c.op() else schema.ReduceKind.sum
    return Complex(c.emit("Reduce", kind=kind, x=slot_as(c, x.pair, c.dtype()), axes=axes, keepdim=keepdim))


class _Real(Context):
    """The call as one of real tensors, whose result is a part of the complex result."""

    def shape(self, index: int | None = None) -> tuple[Int, ...]:
        return super().shape(index)[:-1]


def _matrix_products(*targets: str) -> None:
    """Lowers products of matrices by four products of the parts."""
    for target in targets:

        @lower_complex(target)
        def lowering(c: Context, x: Complex, y: Complex, target: str = target) -> Complex:
            product, real = LOWERINGS[target], _Real(**vars(c))
            ac, ad, bc, bd = (product(real, c.tensor(p), c.tensor(q)) for p in _parts_of(c, x) for q in _parts_of(c, y))
            return join(c, step("sub", c.dtype(), ac, bd), step("add", c.dtype(), ad, bc))


_matrix_products("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default", "aten.dot.default")


# ---------------------------------------------------------------- tensors of one number, and other moves


@lower_complex("aten.full.default", "aten.full_like.default", "aten.new_full.default")
def full(c: Context, _: Any, second: Any, *rest: Any) -> Complex:
    return _filled(c, rest[0] if c.op() == "new_full" else second)


@lower_complex("aten.fill.Scalar")
def fill(c: Context, _: Complex, value: Number) -> Complex:
    return _filled(c, value)


@lower_complex("aten.copy.default")
def copy(c: Context, x: Any, source: Any, _: bool) -> Complex:
    if not isinstance(x, Complex):
        raise Unsupported("a complex tensor as a real one: take its real part")
    return _filled(c, source)


@lower_complex("aten.scalar_tensor.default")
def scalar_tensor(c: Context, value: Number, *_: Any) -> Complex:
    return _filled(c, value)


@lower_complex("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(c: Context, *_: Any) -> Complex:
    return _filled(c, 1.0)


@lower_complex("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default")
def zeros(c: Context, *_: Any) -> Complex:
    return _filled(c, 0.0)


def _filled(c: Context, value: Any) -> Complex:
    _, real, imag = _both(c, value)
    return join(c, real, imag)


@lower_complex("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def transposed(c: Context, x: Complex) -> Complex:
    order = list(range(x.pair.rank))
    return Complex(c.tensor(permute(c, x.pair, [*order[:-3], *order[-3:-1][::-1], order[-1]])))


@lower_complex("aten.flip.default")
def flip(c: Context, x: Complex, dims: list[int]) -> Complex:
    rank = x.pair.rank - 1
    return Complex(c.tensor(LOWERINGS["aten.flip.default"](c, x.pair, [d % rank for d in dims])))


@lower_complex("aten.roll.default")
def roll(c: Context, x: Complex, shifts: list[Any], dims: list[int]) -> Complex:
    rank, shape = x.pair.rank - 1, x.pair.shape
    if dims:
        return Complex(c.tensor(LOWERINGS["aten.roll.default"](c, x.pair, shifts, [d % rank for d in dims])))
    flat = reshape(c, x.pair, (c.sizes.product(shape[:-1]), 2))
    return Complex(c.tensor(reshape(c, LOWERINGS["aten.roll.default"](c, flat, shifts, [0]), shape)))


def _swapped(c: Context, x: Tensor) -> Tensor:
    """Exchanges the last two dimensions: the elements of a window, and the parts."""
    order = list(range(x.rank))
    return permute(c, x, [*order[:-2], order[-1], order[-2]])


@lower_complex("aten.unfold.default")
def unfold(c: Context, x: Complex, axis: int, size: Int, stride: Int) -> Complex:
    if x.pair.rank == 1:
        raise Unsupported("windows of a complex number without dimensions")
    shape = (*c.shape()[:-2], 2, c.shape()[-2])
    windows = c.builder.view("Unfold", x.pair, shape, axis=axis % (x.pair.rank - 1), size=size, step=stride)
    return Complex(c.tensor(_swapped(c, windows)))


@lower_complex("aten.unfold_backward.default")
def unfold_backward(c: Context, x: Complex, sizes: list[Int], axis: int, size: int, stride: int) -> Complex:
    whole = LOWERINGS["aten.unfold_backward.default"]
    axis %= x.pair.rank - 2
    return Complex(c.tensor(whole(c, _swapped(c, x.pair), sizes, axis, size, stride)))


def _with_a_part(*targets: str) -> None:
    """Lowers ops that replace a part along an axis."""
    for target in targets:

        @lower_complex(target)
        def lowering(c: Context, x: Any, part: Any, axis: int, *rest: Any, target: str = target) -> Complex:
            if not isinstance(x, Complex) or not isinstance(part, Complex):
                raise Unsupported("a part of a complex tensor replaced by a real one, or the other way")
            return Complex(c.tensor(LOWERINGS[target](c, x.pair, part.pair, axis % (x.pair.rank - 1), *rest)))


_with_a_part("aten.slice_scatter.default", "aten.select_scatter.default")


def _into_several(*targets: str) -> None:
    """Lowers ops with several results whose last argument is the axis."""
    for target in targets:

        @lower_complex(target)
        def lowering(c: Context, x: Complex, *rest: Any, target: str = target) -> list[Complex]:
            *sizes, axis = rest
            found = LOWERINGS[target](c, x.pair, *sizes, axis % (x.pair.rank - 1))
            return [Complex(c.tensor(s)) for s in found]


_into_several("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int")
