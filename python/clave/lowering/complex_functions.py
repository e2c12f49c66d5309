"""Functions of complex tensors, as expressions over their parts; sums, products, tensors of one number."""

from __future__ import annotations

import cmath
import math
from typing import Any

from clave import schema
from clave.builder import Int
from clave.errors import Unsupported
from clave.lowering.complex import Number, Parts, join, parts
from clave.lowering.registry import LOWERINGS, Complex, Context, Tensor, lower_complex
from clave.lowering.reshape import permute, reshape
from clave.lowering.slice import select
from clave.lowering.steps import Expr, Operand, compute, opmath, slot_as, step

D = schema.DType


def _both(c: Context, x: Any) -> tuple[D, Operand, Operand]:
    """What to compute in, and the parts; the imaginary one of a real operand is 0."""
    real, imag = parts(c, x)
    return opmath(c.dtype()), real, 0.0 if imag is None else imag


def _polar(t: D, length: Operand, angle: Operand) -> Parts:
    return step("mul", t, length, step("cos", t, angle)), step("mul", t, length, step("sin", t, angle))


def _log(t: D, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    if isinstance(a, int | float) and isinstance(b, int | float):
        found = cmath.log(complex(a, b)) if a or b else complex(-math.inf)
        return found.real, found.imag
    return step("log", t, step("hypot", t, a, b)), step("atan2", t, b, a)


# ---------------------------------------------------------------- functions


@lower_complex("aten.sqrt.default")
def sqrt(c: Context, x: Complex) -> Complex:
    """Of the result's parts the larger is t = sqrt((|a| + |x|) / 2), the other |b| / (2 t)."""
    t, a, b = _both(c, x)
    large = step("sqrt", t, step("mul", t, step("add", t, step("abs", t, a), step("hypot", t, a, b)), 0.5))
    size = step("abs", t, b)
    none = step("logical_or", D.BOOL, step("eq", t, large, 0.0), step("isinf", t, b))
    small = step("where", t, none, size, step("div", t, size, step("mul", t, large, 2.0)))
    positive = step("ge", t, a, 0.0)
    real, imag = step("where", t, positive, large, small), step("where", t, positive, small, large)
    return join(c, real, step("copysign", t, imag, b))


@lower_complex("aten.log.default", "aten.log2.default", "aten.log10.default")
def log(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    base = c.op().removeprefix("log")
    found = _log(t, a, b)
    return join(c, *(step("div", t, p, math.log(int(base))) if base else p for p in found))


# Each part is a function of the real part times one of the imaginary part.
_PRODUCTS = {
    "sin": (("sin", "cosh"), ("cos", "sinh")),
    "cos": (("cos", "cosh"), ("sin", "sinh")),
    "sinh": (("sinh", "cos"), ("cosh", "sin")),
    "cosh": (("cosh", "cos"), ("sinh", "sin")),
}


@lower_complex(*(f"aten.{name}.default" for name in _PRODUCTS))
def trigonometric(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    name = c.op()
    real, imag = (step("mul", t, step(f, t, a), step(g, t, b)) for f, g in _PRODUCTS[name])
    return join(c, real, step("neg", t, imag) if name == "cos" else imag)


@lower_complex("aten.reciprocal.default")
def reciprocal(c: Context, x: Complex) -> Complex:
    t, a, b = _both(c, x)
    square = step("add", t, step("mul", t, a, a), step("mul", t, b, b))
    return join(c, step("div", t, a, square), step("neg", t, step("div", t, b, square)))


@lower_complex("aten.sgn.default")
def sgn(c: Context, x: Complex) -> Complex:
    """x / |x|; 0 of 0."""
    t, a, b = _both(c, x)
    length = step("hypot", t, a, b)
    zero = step("eq", t, length, 0.0)
    return join(c, *(step("where", t, zero, 0.0, step("div", t, p, length)) for p in (a, b)))


@lower_complex("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(c: Context, x: Any, y: Any) -> Complex:
    """exp(y log(x)); products for small whole y; x^0 is 1, and 0^y is 0."""
    if isinstance(y, int | float) and y in (1, 2, 3):
        return _product_of(c, x, int(y))
    if y == 0.5:
        return sqrt(c, x)
    t, a, b = _both(c, x)
    _, e, f = _both(c, y)
    length, angle = _log(t, a, b)
    grown = step("sub", t, _times(t, e, length), _times(t, f, angle))
    turned = step("add", t, _times(t, f, length), _times(t, e, angle))
    found = _polar(t, step("exp", t, grown), turned)
    zero, flat = _is_zero(t, a, b), _is_zero(t, e, f)
    one = step("where", t, flat, 1.0, 0.0) if isinstance(flat, Expr) else float(flat)
    special = _either(zero, flat)
    if special is False:
        return join(c, *found)
    if special is True:
        return join(c, one, 0.0)
    return join(c, *(step("where", t, special, v, p) for v, p in zip((one, 0.0), found, strict=True)))


def _times(t: D, a: Operand, b: Operand) -> Operand:
    """Of a number that is 0: 0."""
    zero = any(isinstance(v, int | float) and v == 0 for v in (a, b))
    both = isinstance(a, int | float) and isinstance(b, int | float)
    return 0.0 if zero else a * b if both else step("mul", t, a, b)  # type: ignore[operator]


def _is_zero(t: D, a: Operand, b: Operand) -> Expr | bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == 0 and b == 0
    return step("logical_and", D.BOOL, step("eq", t, a, 0.0), step("eq", t, b, 0.0))


def _either(a: Expr | bool, b: Expr | bool) -> Expr | bool:
    if isinstance(a, bool) or isinstance(b, bool):
        known, other = (a, b) if isinstance(a, bool) else (b, a)
        return True if known else other
    return step("logical_or", D.BOOL, a, b)


def _product_of(c: Context, x: Any, n: int) -> Complex:
    """x^n, n >= 1."""
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


def _parts_of(c: Context, x: Any) -> tuple[Operand, Operand]:
    """The parts as they are, of ops whose result is not complex."""
    if isinstance(x, Complex):
        return select(c, x.pair, -1, 0), select(c, x.pair, -1, 1)
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0.0)


@lower_complex("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(c: Context, condition: Tensor, x: Any, y: Any) -> Complex:
    t, a, b = _both(c, x)
    _, e, f = _both(c, y)
    return join(c, step("where", t, condition, a, e), step("where", t, condition, b, f))


# ---------------------------------------------------------------- sums, products


@lower_complex("aten.sum.default", "aten.mean.default")
def whole_sum(c: Context, x: Complex, *_: Any) -> Complex:
    return _over(c, x, list(range(x.pair.rank - 1)), False)


@lower_complex("aten.sum.dim_IntList", "aten.mean.dim")
def sum_over(c: Context, x: Complex, axes: list[int] | None, keepdim: bool, _: Any) -> Complex:
    rank = x.pair.rank - 1
    return _over(c, x, [a % rank for a in axes] if axes else list(range(rank)), keepdim)


def _over(c: Context, x: Complex, axes: list[int], keepdim: bool) -> Complex:
    if not axes:
        return x
    kind = schema.ReduceKind.mean if "mean" in c.op() else schema.ReduceKind.sum
    return Complex(c.emit("Reduce", kind=kind, x=slot_as(c, x.pair, c.dtype()), axes=axes, keepdim=keepdim))


class _Real(Context):
    """The call as one of real tensors: its result is a part of the complex one."""

    def shape(self, index: int | None = None) -> tuple[Int, ...]:
        return super().shape(index)[:-1]


def _matrix_products(*targets: str) -> None:
    """By four products of the parts."""
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


@lower_complex("aten.scalar_tensor.default")
def scalar_tensor(c: Context, value: Number, *_: Any) -> Complex:
    return _filled(c, value)


@lower_complex("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(c: Context, *_: Any) -> Complex:
    return _filled(c, 1.0)


@lower_complex("aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default")
def zeros(c: Context, *_: Any) -> Complex:
    return _filled(c, 0.0)


def _filled(c: Context, value: Number) -> Complex:
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
    """The last two dimensions exchanged: the elements of a window, and the parts."""
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


def _into_several(*targets: str) -> None:
    """Ops whose last argument is the axis."""
    for target in targets:

        @lower_complex(target)
        def lowering(c: Context, x: Complex, *rest: Any, target: str = target) -> list[Complex]:
            *sizes, axis = rest
            found = LOWERINGS[target](c, x.pair, *sizes, axis % (x.pair.rank - 1))
            return [Complex(c.tensor(s)) for s in found]


_into_several("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int")
