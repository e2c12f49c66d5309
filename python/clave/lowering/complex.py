"""Complex tensors in a graph, as real tensors with another last dimension of 2 for the real and the imaginary part.

The metadata of a program marks complex inputs and outputs (structure.py). `lower_complex` registers the lowering of an
op for complex operands or results. Its Context has shapes with the dimension of pairs, and the dtype of the parts.

As in torch, a real operand of a product or quotient has the imaginary part 0, so that infinity times a real number has
a NaN. Sums only add the parts, whereas torch first multiplies the second operand by alpha = 1 + 0i. Functions and sums
over dimensions are in complex_functions.py.
"""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot, Val
from clave.errors import Unsupported
from clave.lowering.registry import LOWERINGS, Complex, Context, Filled, Tensor, lower_complex
from clave.lowering.reshape import RESHAPES, expand, insert, permute, reshape
from clave.lowering.slice import select
from clave.lowering.steps import Operand, cast_to, compute, opmath, slot_as, step

Number = int | float | complex | Val
Parts = tuple[Operand, Operand | None]


def parts(c: Context, x: Any) -> Parts:
    """Returns the real and the imaginary part in the dtype of the call's parts. The latter is None for a real x."""
    if isinstance(x, Complex):
        pair = cast_to(c, x.pair, c.dtype())
        return select(c, pair, -1, 0), select(c, pair, -1, 1)
    if isinstance(x, complex):
        return x.real, x.imag
    return x, None


def join(c: Context, real: Operand, imag: Operand) -> Complex:
    """Makes the call's complex result of two expressions."""
    shape, t = c.shape()[:-1], c.dtype()

    def half(e: Operand) -> Slot:
        x = Filled(e, t, shape) if isinstance(e, int | float | Val) else compute(c, e, shape, t)
        return c.tensor(insert(c, expand(c, x, shape), len(shape)))

    return Complex(c.emit("Cat", xs=[half(real), half(imag)], axis=len(shape), shape=(*shape, 2), dtype=t))


def _plus(t: schema.DType, kind: str, a: Operand | None, b: Operand | None) -> Operand | None:
    if a is None or b is None:
        return a if b is None else b if kind == "add" else step("neg", t, b)
    return step(kind, t, a, b)


def _times(t: schema.DType, a: Operand | None, b: Operand | None) -> Operand | None:
    return None if a is None or b is None else step("mul", t, a, b)


def _product(t: schema.DType, x: Parts, y: Parts) -> Parts:
    (a, b), (e, f) = x, y
    real = _plus(t, "sub", _times(t, a, e), _times(t, b, f))
    assert real is not None
    return real, _plus(t, "add", _times(t, a, f), _times(t, b, e))


def _some(x: Operand | None) -> Operand:
    return 0.0 if x is None else x


# ---------------------------------------------------------------- between real and complex


@lower_complex("aten.view_as_complex.default")
def view_as_complex(c: Context, x: Tensor) -> Complex:
    return Complex(c.tensor(x))


@lower_complex("aten.view_as_real.default")
def view_as_real(c: Context, x: Complex) -> Tensor:
    return x.pair


@lower_complex("aten.complex.default")
def complex_(c: Context, real: Tensor, imag: Tensor) -> Complex:
    return join(c, real, imag)


@lower_complex("aten.polar.default")
def polar(c: Context, length: Tensor, angle: Tensor) -> Complex:
    t = opmath(c.dtype())
    return join(c, *(step("mul", t, length, step(f, t, angle)) for f in ("cos", "sin")))


@lower_complex("aten.real.default", "aten.imag.default")
def part(c: Context, x: Complex) -> Tensor:
    return select(c, x.pair, -1, int("imag" in c.op()))


@lower_complex("aten.abs.default")
def abs_(c: Context, x: Complex) -> Tensor:
    return compute(c, step("hypot", c.dtype(), *parts(c, x)))


@lower_complex("aten.angle.default")
def angle(c: Context, x: Complex) -> Tensor:
    return compute(c, step("atan2", c.dtype(), *reversed(parts(c, x))))


@lower_complex("aten._to_copy.default", "aten.clone.default", "aten.alias.default", "aten.lift_fresh_copy.default")
def to(c: Context, x: Any, *_: Any) -> Complex:
    if not c.fake().is_complex():
        raise Unsupported("a complex tensor as a real one: take its real part")
    if isinstance(x, Complex):
        return Complex(slot_as(c, x.pair, c.dtype()))
    return join(c, x, 0.0)


# ---------------------------------------------------------------- arithmetic


@lower_complex("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: Context, x: Any, y: Any) -> Complex:
    real, imag = _product(opmath(c.dtype()), _full(parts(c, x)), _full(parts(c, y)))
    return join(c, real, _some(imag))


def _full(x: Parts) -> tuple[Operand, Operand]:
    return x[0], _some(x[1])


@lower_complex("aten.div.Tensor", "aten.div.Scalar")
def div(c: Context, x: Any, y: Any) -> Complex:
    return join(c, *quotient(opmath(c.dtype()), _full(parts(c, x)), _full(parts(c, y))))


def quotient(t: schema.DType, x: tuple[Operand, Operand], y: tuple[Operand, Operand]) -> tuple[Operand, Operand]:
    """Returns x / y by Smith's algorithm, as torch does: it divides the smaller part of y by the larger, so that it
    forms no square. A zero y divides each part of x."""
    (a, b), (e, f) = x, y
    if isinstance(e, int | float) and isinstance(f, int | float):
        return _by_number(t, x, complex(e, f))
    size, other = _size(t, e), _size(t, f)
    first = step("ge", t, size, other)
    large, small = step("where", t, first, e, f), step("where", t, first, f, e)
    ratio = step("div", t, small, large)
    scale = step("div", t, 1.0, step("add", t, large, step("mul", t, small, ratio)))
    u, v = step("where", t, first, a, b), step("where", t, first, b, a)
    real = step("mul", t, step("add", t, u, step("mul", t, v, ratio)), scale)
    imag = step("mul", t, step("sub", t, v, step("mul", t, u, ratio)), scale)
    none = step("eq", t, step("add", t, size, other), 0.0)
    length = step("add", t, size, other)  # used only if it is 0
    return (
        step("where", t, none, step("div", t, a, length), real),
        step("where", t, none, step("div", t, b, length), step("where", t, first, imag, step("neg", t, imag))),
    )


def _size(t: schema.DType, x: Operand) -> Operand:
    return abs(x) if isinstance(x, int | float) else step("abs", t, x)


def _by_number(t: schema.DType, x: tuple[Operand, Operand], y: complex) -> tuple[Operand, Operand]:
    a, b = x
    if y == 0:
        return step("div", t, a, 0.0), step("div", t, b, 0.0)
    first = abs(y.real) >= abs(y.imag)
    large, small = (y.real, y.imag) if first else (y.imag, y.real)
    ratio = small / large
    scale = large + small * ratio
    u, v = (a, b) if first else (b, a)
    imag = step("sub", t, v, step("mul", t, u, ratio))
    return (
        step("div", t, step("add", t, u, step("mul", t, v, ratio)), scale),
        step("div", t, imag if first else step("neg", t, imag), scale),
    )


def _sum(op: str, kind: str) -> None:
    @lower_complex(f"aten.{op}.Tensor", f"aten.{op}.Scalar")
    def lowering(c: Context, x: Any, y: Any, alpha: Number) -> Complex:
        x, y = (y, x) if op == "rsub" else (x, y)
        t = opmath(c.dtype())
        scaled = parts(c, y) if alpha == 1 else _product(t, parts(c, y), parts(c, alpha))
        real, imag = (_plus(t, kind, a, b) for a, b in zip(parts(c, x), scaled, strict=True))
        assert real is not None
        return join(c, real, _some(imag))


_sum("add", "add")
_sum("sub", "sub")
_sum("rsub", "sub")


@lower_complex("aten.neg.default")
def neg(c: Context, x: Complex) -> Complex:
    return Complex(c.tensor(compute(c, step("neg", c.dtype(), x.pair))))


@lower_complex("aten.conj_physical.default", "aten._conj_physical.default", "aten._conj.default")
def conj(c: Context, x: Complex) -> Complex:
    real, imag = parts(c, x)
    assert imag is not None
    return join(c, real, step("neg", c.dtype(), imag))


# ---------------------------------------------------------------- views and joins of the pairs


@lower_complex(*RESHAPES)
def reshaped(c: Context, x: Complex, *_: Any) -> Complex:
    return Complex(c.tensor(reshape(c, x.pair, c.shape())))


@lower_complex("aten.expand.default")
def expanded(c: Context, x: Complex, *_: Any) -> Complex:
    return Complex(c.tensor(expand(c, x.pair, c.shape())))


@lower_complex("aten.permute.default")
def permuted(c: Context, x: Complex, dims: list[int]) -> Complex:
    n = x.pair.rank - 1
    return Complex(c.tensor(permute(c, x.pair, [*(d % n for d in dims), n])))


@lower_complex("aten.transpose.int")
def transpose(c: Context, x: Complex, a: int, b: int) -> Complex:
    dims = list(range(x.pair.rank))
    dims[a % (len(dims) - 1)], dims[b % (len(dims) - 1)] = b % (len(dims) - 1), a % (len(dims) - 1)
    return Complex(c.tensor(permute(c, x.pair, dims)))


def _along_axis(*targets: str) -> None:
    """Lowers ops whose second argument is the axis by their lowering for real tensors."""
    for target in targets:

        @lower_complex(target)
        def lowering(c: Context, x: Complex, axis: int, *rest: Any, target: str = target) -> Complex:
            return Complex(c.tensor(LOWERINGS[target](c, x.pair, axis % (x.pair.rank - 1), *rest)))


_along_axis("aten.slice.Tensor", "aten.select.int", "aten.narrow.default", "aten.index_select.default")


@lower_complex("aten.index.Tensor")
def index(c: Context, x: Complex, indices: list[Tensor | None]) -> Complex:
    return Complex(c.tensor(LOWERINGS["aten.index.Tensor"](c, x.pair, indices)))


@lower_complex("aten.repeat.default")
def repeat(c: Context, x: Complex, repeats: list[Int]) -> Complex:
    return Complex(c.tensor(LOWERINGS["aten.repeat.default"](c, x.pair, [*repeats, 1])))


@lower_complex("aten.constant_pad_nd.default")
def pad(c: Context, x: Complex, amounts: list[Int], value: Number) -> Complex:
    if value != 0:
        raise Unsupported("complex numbers padded with other than 0")
    return Complex(c.tensor(LOWERINGS["aten.constant_pad_nd.default"](c, x.pair, [0, 0, *amounts], 0)))


@lower_complex("aten.pad.default")
def any_pad(c: Context, x: Complex, amounts: list[Int], mode: str, value: Number | None) -> Complex:
    if value:
        raise Unsupported("complex numbers padded with other than 0")
    return Complex(c.tensor(LOWERINGS["aten.pad.default"](c, x.pair, [0, 0, *amounts], mode, None)))


@lower_complex("aten.cat.default", "aten.stack.default")
def cat(c: Context, xs: list[Any], axis: int) -> Complex:
    if not all(isinstance(x, Complex) for x in xs):
        raise Unsupported("a join of real and complex tensors")
    pairs: list[Slot] = [slot_as(c, x.pair, c.dtype()) for x in xs]
    name = "aten.cat.default" if "cat" in c.op() else "aten.stack.default"
    return Complex(c.tensor(LOWERINGS[name](c, pairs, axis % (len(c.shape()) - 1))))
