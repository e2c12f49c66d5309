"""Elementwise ops: unary, binary, compare, logical, bitwise, where, clamp, casts. One node per op of the graph."""

from __future__ import annotations

import math
from typing import Any

import torch

from clave import schema
from clave.builder import Val
from clave.dtypes import torch_dtype
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.steps import (
    Operand,
    cast,
    compute,
    convert,
    has_fractions,
    is_float,
    opmath,
    promote,
    rounded,
    step,
)

D = schema.DType

# ---------------------------------------------------------------- unary


def _unary(op: str, kind: str) -> None:
    """Lowers ops that compute in the dtype of the result. Integers are converted to floats if torch does so."""

    @lower(f"aten.{op}.default")
    def lowering(c: Context, x: Tensor) -> Tensor:
        return compute(c, step(kind, c.dtype(), x))


for _kind in (
    "neg abs sign sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc erfinv lgamma digamma i0 sigmoid relu silu hardswish hardsigmoid mish"
).split():
    _unary(_kind, _kind)


@lower("aten.bitwise_not.default")
def bitwise_not(c: Context, x: Tensor) -> Tensor:
    return compute(c, step("logical_not" if x.dtype == schema.DType.BOOL else "bitwise_not", x.dtype, x))


def _rounding(kind: str) -> None:
    @lower(f"aten.{kind}.default")
    def lowering(c: Context, x: Tensor) -> Tensor:
        return compute(c, step(kind, c.dtype(), x)) if is_float(x.dtype) else x


for _kind in ("ceil", "floor", "round", "trunc"):
    _rounding(_kind)


def _predicate(kind: str) -> None:
    @lower(f"aten.{kind}.default")
    def lowering(c: Context, x: Tensor) -> Tensor:
        if kind != "logical_not" and not has_fractions(x.dtype):
            return compute(c, step("ne", x.dtype, x, x))  # an integer is never nan or inf
        return compute(c, step(kind, x.dtype, x))


for _kind in ("logical_not", "isnan", "isinf"):
    _predicate(_kind)


@lower("aten.polygamma.default")
def polygamma(c: Context, n: int, x: Tensor) -> Tensor:
    """Returns the n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x). At infinity it is 0, for n > 1 NaN as in
    torch."""
    t = c.dtype()
    if n == 0:
        return compute(c, step("digamma", t, x))
    factor = convert(math.copysign(math.gamma(n + 1) if n < 171 else math.inf, n % 2 - 0.5), opmath(t))
    value = step("mul", opmath(t), factor, step("zeta", opmath(t), float(n + 1), x))
    if n == 1 and is_float(x.dtype):
        value = step("where", opmath(t), step("eq", x.dtype, x, math.inf), 0.0, value)
    return compute(c, value)


@lower("aten.special_zeta.default", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar")
def zeta(c: Context, s: Tensor | Scalar, q: Tensor | Scalar) -> Tensor:
    return compute(c, step("zeta", c.dtype(), s, q))


@lower("aten.mvlgamma.default")
def mvlgamma(c: Context, x: Tensor, p: int) -> Tensor:
    """Returns the sum of log gamma(x - j / 2), j < p, and a constant. torch rounds terms and sum to the dtype."""
    t = c.dtype()
    terms = [step("lgamma", t, step("add", t, x, -j / 2)) for j in reversed(range(p))]
    total = compute(c, terms[0], dtype=opmath(t))
    for term in terms[1:]:
        total = compute(c, step("add", opmath(t), total, term), dtype=opmath(t))
    return compute(c, step("add", t, total, p * (p - 1) * math.log(math.pi) / 4))


@lower("aten.signbit.default")
def signbit(c: Context, x: Tensor) -> Tensor:
    if x.dtype in (D.U16, D.U32, D.U64):
        return compute(c, step("ne", x.dtype, x, x))
    return compute(c, step("signbit", x.dtype, x) if is_float(x.dtype) else step("lt", x.dtype, x, 0))


@lower("aten.round.decimals")
def round_decimals(c: Context, x: Tensor, decimals: int) -> Tensor:
    if not is_float(x.dtype):
        return x
    t, power = opmath(x.dtype), 10.0 ** abs(decimals)
    first, last = ("mul", "div") if decimals > 0 else ("div", "mul")
    return compute(c, step(last, t, step("round", t, step(first, t, x, power)), power))


@lower("aten.angle.default")
def angle(c: Context, x: Tensor) -> Tensor:
    """Returns pi for negative numbers, NaN for NaN, and 0 for others."""
    t = c.dtype()
    e = step("where", t, step("lt", x.dtype, x, 0), math.pi, 0)
    return compute(c, step("where", t, step("isnan", t, x), x, e) if is_float(x.dtype) else e)


@lower("aten.frexp.Tensor")
def frexp(c: Context, x: Tensor) -> list[Tensor]:
    exponent = cast(step("frexp_exponent", x.dtype, x), schema.DType.I32)
    return [
        compute(c, step("frexp_mantissa", x.dtype, x), c.shape(0), c.dtype(0)),
        compute(c, exponent, c.shape(1), c.dtype(1)),
    ]


@lower("aten.logit.default")
def logit(c: Context, x: Tensor, eps: float | None) -> Tensor:
    """Returns log(x / (1 - x)), with each step rounded to the dtype, as in torch."""
    t = c.dtype()
    e: Operand = x if eps is None else step("clamp", t, x, eps, 1 - eps)
    return compute(c, step("log", t, step("div", t, e, step("sub", t, 1, e))))


@lower("aten.gelu.default")
def gelu(c: Context, x: Tensor, approximate: str) -> Tensor:
    return compute(c, step("gelu" if approximate == "none" else "gelu_tanh", c.dtype(), x))


@lower("aten.softplus.default")
def softplus(c: Context, x: Tensor, beta: Scalar, threshold: Scalar) -> Tensor:
    return compute(c, step("softplus", c.dtype(), x, beta, threshold))


@lower("aten.leaky_relu.default")
def leaky_relu(c: Context, x: Tensor, slope: Scalar) -> Tensor:
    return compute(c, step("leaky_relu", c.dtype(), x, slope))


@lower("aten.rrelu_with_noise_functional.default")
def rrelu(
    c: Context, x: Tensor, noise: Tensor, lower: float, upper: float, training: bool, generator: object
) -> list[Tensor]:
    """Lowers eval mode, which has no noise. An export in training mode is refused before lowering."""
    return [compute(c, step("leaky_relu", x.dtype, x, (lower + upper) / 2), x.shape, x.dtype), noise]


@lower("aten.elu.default")
def elu(c: Context, x: Tensor, alpha: float, scale: float, input_scale: float) -> Tensor:
    if scale == 1 and input_scale == 1:
        return compute(c, step("elu", c.dtype(), x, alpha))
    t = opmath(c.dtype())
    negative = step("mul", t, step("expm1", t, step("mul", t, x, input_scale)), alpha * scale)
    return compute(c, step("where", t, step("gt", t, x, 0), step("mul", t, x, scale), negative))


@lower("aten.hardtanh.default")
def hardtanh(c: Context, x: Tensor, low: Scalar, high: Scalar) -> Tensor:
    return compute(c, step("clamp", c.dtype(), x, low, high))


# ---------------------------------------------------------------- arithmetic


def _binary(kind: str, *targets: str) -> None:
    @lower(*targets)
    def lowering(c: Context, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
        t = c.dtype()
        return compute(c, step(kind, t, rounded(a, t), rounded(b, t)))


@lower("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: Context, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
    return compute(c, step("mul", c.dtype(), a, b))


for _kind, _targets in {
    "remainder": "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor",
    "fmod": "fmod.Tensor fmod.Scalar",
    "maximum": "maximum.default max.other",
    "minimum": "minimum.default min.other",
    "atan2": "atan2.default",
    "hypot": "hypot.default",
    "bitwise_and": "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor __and__.Tensor __and__.Scalar",
    "bitwise_or": "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor __or__.Tensor __or__.Scalar",
    "bitwise_xor": "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor __xor__.Tensor __xor__.Scalar",
    "shift_left": "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor "
    "__lshift__.Tensor __lshift__.Scalar",
    "shift_right": "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor "
    "__rshift__.Tensor __rshift__.Scalar",
    "copysign": "copysign.Tensor copysign.Scalar",
    "lcm": "lcm.default",
}.items():
    _binary(_kind, *(f"aten.{t}" for t in _targets.split()))


def _scaled(kind: str, dtype: schema.DType, a: Operand, b: Operand, alpha: Scalar) -> Operand:
    """Returns kind(a, alpha * b), rounded once. As in torch, alpha is rounded to the dtype."""
    if not isinstance(alpha, Val) and alpha == 1:
        return step(kind, dtype, a, b)
    t = opmath(dtype)
    return step(kind, t, a, step("mul", t, b, convert(alpha, dtype)))


@lower("aten.add.Tensor", "aten.add.Scalar")
def add(c: Context, a: Tensor, b: Tensor | Scalar, alpha: Scalar) -> Tensor:
    return compute(c, _scaled("add", c.dtype(), a, b, alpha))


@lower("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: Context, a: Tensor, b: Tensor | Scalar, alpha: Scalar) -> Tensor:
    return compute(c, _scaled("sub", c.dtype(), a, b, alpha))


@lower("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: Context, a: Tensor, b: Tensor | Scalar, alpha: Scalar) -> Tensor:
    return compute(c, _scaled("sub", c.dtype(), b, a, alpha))


@lower("aten.div.Tensor", "aten.div.Scalar")
def div(c: Context, a: Tensor, b: Tensor | Scalar) -> Tensor:
    return compute(c, step("div", c.dtype(), rounded(a, c.dtype()), b))


@lower("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(c: Context, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
    return compute(c, step("floor_divide", c.dtype(), rounded(a, c.dtype()), b))


@lower("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(c: Context, a: Tensor, b: Tensor | Scalar, rounding_mode: str | None) -> Tensor:
    t = c.dtype()
    a = rounded(a, t)
    if rounding_mode == "trunc" and is_float(t):  # truncates the quotient rounded to the dtype
        return compute(c, step("trunc", t, step("div", t, a, b)))
    kind = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}[rounding_mode]
    return compute(c, step(kind, t, a, b))


def _nan_skipping(op: str, kind: str) -> None:
    """Lowers fmax and fmin, which return the number if the other operand is NaN."""

    @lower(f"aten.{op}.default")
    def lowering(c: Context, a: Tensor, b: Tensor) -> Tensor:
        return compute(c, step(op if is_float(c.dtype()) else kind, c.dtype(), a, b))


_nan_skipping("fmax", "maximum")
_nan_skipping("fmin", "minimum")


@lower("aten.gcd.default")
def gcd(c: Context, a: Tensor, b: Tensor) -> Tensor:
    """Lowers gcd. As in torch, the least integer is its own absolute value, so the result may be negative."""
    t = c.dtype()
    return compute(c, step("gcd", t, step("abs", t, a), step("abs", t, b)))


@lower("aten.ldexp.Tensor")
def ldexp(c: Context, x: Tensor, exponent: Tensor) -> Tensor:
    """Returns x * 2^exponent. For a float x, an integer exponent counts modulo 2^32. For an integer x, the power is
    rounded to f32."""
    t, f32 = c.dtype(), schema.DType.F32
    if is_float(exponent.dtype):
        return compute(c, step("mul", t, x, step("pow", exponent.dtype, 2, exponent)))
    if is_float(x.dtype):
        return compute(c, step("ldexp", t, x, cast(exponent, schema.DType.I32)))
    return compute(c, step("mul", t, x, step("ldexp", f32, 1, cast(exponent, f32))))


@lower("aten.nextafter.default")
def nextafter(c: Context, x: Tensor, toward: Tensor) -> Tensor:
    """Lowers nextafter, for 16 bits in f32: a value between half and one and a half of the distance to the neighbour is
    rounded to the neighbour."""
    t = c.dtype()
    if t != opmath(t):
        return compute(c, _nextafter_16(t, x, toward))
    return compute(c, step("nextafter", t, x, toward))


def _nextafter_16(dtype: schema.DType, x: Tensor, toward: Tensor) -> Operand:
    info, t = torch.finfo(torch_dtype(dtype)), schema.DType.F32
    half = step("mul", t, step("abs", t, x), info.eps / 2 * (1 + info.eps))
    move = step("maximum", t, half, 0.75 * info.smallest_normal * info.eps)
    up = step("gt", dtype, toward, x)
    moved = step("add", t, x, step("where", t, up, move, step("neg", t, move)))
    largest = step("where", t, up, -info.max, info.max)
    there = step("logical_or", schema.DType.BOOL, step("eq", dtype, x, toward), step("isnan", dtype, toward))
    return step("where", t, there, toward, step("where", t, step("isinf", dtype, x), largest, moved))


def _power(x: Tensor, exponent: Scalar, dtype: schema.DType) -> Operand:
    """Returns x ** exponent, with the common exponents computed as in torch's kernel."""
    if isinstance(exponent, Val) or not is_float(dtype):
        return x if not isinstance(exponent, Val) and exponent == 1 else step("pow", dtype, x, exponent)
    t = opmath(dtype)
    simple = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if float(exponent) in simple:
        return step(simple[float(exponent)], dtype, x)
    if exponent in (2, -2, 3):
        wide = cast(x, t)
        square = step("mul", t, wide, wide)
        return {2: square, 3: step("mul", t, square, wide), -2: step("reciprocal", t, square)}[int(exponent)]
    return x if exponent == 1 else step("pow", dtype, x, rounded(exponent, dtype))


@lower("aten.pow.Tensor_Scalar")
def pow_scalar(c: Context, x: Tensor, exponent: Scalar) -> Tensor:
    return compute(c, _power(x, exponent, c.dtype()))


@lower("aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow_tensor(c: Context, base: Tensor | Scalar, exponent: Tensor) -> Tensor:
    return compute(c, step("pow", c.dtype(), rounded(base, c.dtype()), exponent))


# ---------------------------------------------------------------- compare, logical


def _compare(kind: str, *targets: str) -> None:
    """Lowers ops that compare or test in the promoted dtype of their operands."""

    @lower(*targets)
    def lowering(c: Context, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
        t = promote(a, b)
        return compute(c, step(kind, t, rounded(a, t), rounded(b, t)))


for _kind in ("eq", "ne", "lt", "le", "gt", "ge"):
    _compare(_kind, f"aten.{_kind}.Tensor", f"aten.{_kind}.Scalar")
for _kind in ("logical_and", "logical_or", "logical_xor"):
    _compare(_kind, f"aten.{_kind}.default")


# ---------------------------------------------------------------- where, clamp, casts


@lower("aten.where.self", "aten.where.Scalar", "aten.where.ScalarSelf", "aten.where.ScalarOther")
def where(c: Context, condition: Tensor, a: Tensor | Scalar, b: Tensor | Scalar) -> Tensor:
    return compute(c, step("where", c.dtype(), condition, a, b))


@lower("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c: Context, x: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    return compute(c, step("where", c.dtype(), mask, value, x))


@lower("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
def clamp(c: Context, x: Tensor, low: Tensor | Scalar | None, high: Tensor | Scalar | None) -> Tensor:
    if low is None or high is None:
        kind, limit = ("minimum", high) if low is None else ("maximum", low)
        return compute(c, x if limit is None else _limited(c, kind, x, limit))
    return compute(c, step("clamp", c.dtype(), x, low, high))


def _limited(c: Context, kind: str, x: Tensor, limit: Tensor | Scalar) -> Operand:
    """Returns the maximum or minimum. Of 0 and -0, a step selects its second operand; torch selects x if the limit is a
    number, otherwise the limit."""
    operands = (limit, x) if isinstance(limit, int | float | Val) else (x, limit)
    return step(kind, c.dtype(), *operands)


@lower("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(c: Context, x: Tensor, low: Tensor | Scalar) -> Tensor:
    return compute(c, _limited(c, "maximum", x, low))


@lower("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(c: Context, x: Tensor, high: Tensor | Scalar) -> Tensor:
    return compute(c, _limited(c, "minimum", x, high))


@lower("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.type_as.default")
def to(c: Context, x: Tensor | float, *_: Any) -> Tensor:
    """Casts x, which may be a number, of which torch.vmap makes a tensor."""
    if isinstance(x, int | float):
        return Filled(convert(x, c.dtype()), c.dtype(), c.shape())
    return compute(c, x, x.shape)
