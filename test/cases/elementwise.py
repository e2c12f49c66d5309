"""Elementwise steps: unary, binary, compare, logical, bitwise, where, clamp, cast.

Tolerances follow OpenCL's ulp table (sin, cos, exp, log: 3-4 ulp, pow and erf 16) for f32 and f64, with room for functions
made of two or three of them; the 16-bit floats compute in f32 and round once. Integers and bools are exact.
"""

import torch
import torch.nn.functional as fn

from describe import BF16, BOOL, F16, F32, F64, FLOATS, I8, I32, I64, INF, INTS, NAN, U8, Case, T, name_of, ulps

ANY = [
    torch.neg, torch.abs, torch.sign, torch.ceil, torch.floor, torch.round, torch.trunc, torch.exp, torch.exp2, torch.expm1,
    torch.sin, torch.cos, torch.tan, torch.atan, torch.sinh, torch.cosh, torch.tanh, torch.asinh, torch.erf, torch.erfc,
    torch.sigmoid, torch.relu, fn.silu, fn.hardswish, fn.hardsigmoid,
    fn.softplus, lambda x: fn.softplus(x, 2.0, 3.0), fn.elu, lambda x: fn.elu(x, 0.5), fn.leaky_relu, fn.mish, fn.relu6,
    torch.square, torch.isnan, torch.isinf, torch.logical_not, lambda x: fn.rrelu(x, 0.1, 0.4),
]  # fmt: skip
# These are separate, because torch's vector and scalar code differ at infinity.
GELU = [fn.gelu, lambda x: fn.gelu(x, approximate="tanh")]
POSITIVE = [torch.sqrt, torch.rsqrt, torch.reciprocal, torch.log, torch.log2, torch.log10, torch.log1p]
UNIT = [torch.asin, torch.acos, torch.atanh]
BINARY = [
    torch.add, torch.sub, torch.mul, torch.div, lambda a, b: torch.div(a, b, rounding_mode="floor"),
    lambda a, b: torch.div(a, b, rounding_mode="trunc"), torch.remainder, torch.fmod, torch.maximum, torch.minimum,
    torch.atan2, torch.hypot,
]  # fmt: skip
COMPARE = [
    torch.eq,
    torch.ne,
    torch.lt,
    torch.le,
    torch.gt,
    torch.ge,
    torch.logical_and,
    torch.logical_or,
    torch.logical_xor,
]
INTEGER = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda a, b: torch.div(a, b, rounding_mode="floor"),
    lambda a, b: torch.div(a, b, rounding_mode="trunc"), torch.remainder, torch.fmod, torch.bitwise_and, torch.bitwise_or,
    torch.bitwise_xor,
]  # fmt: skip
SPECIALS = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 2.5, 100.0, -100.0)


def each(functions):
    """Returns a function that returns the results of all these functions."""
    return lambda *args: tuple(f(*args) for f in functions)


SPECIAL = [
    torch.lgamma, torch.digamma, lambda x: torch.erfinv(x / 12), torch.signbit, lambda x: torch.frexp(x).mantissa,
    lambda x: torch.frexp(x).exponent, lambda x: torch.round(x, decimals=2), lambda x: torch.round(x, decimals=-1), torch.angle,
    torch.frac, torch.sinc, torch.nan_to_num, torch.isfinite,
    lambda x: torch.i0(4 * x),
]  # fmt: skip
PAIRS = [torch.copysign, torch.nextafter, torch.fmax, torch.fmin]


def special_cases():
    """lgamma has a zero at 2, digamma at 1.46; both have poles at 0, -1, ...; erfinv has poles at -1 and 1."""
    points = (
        NAN,
        INF,
        -INF,
        0.0,
        -0.0,
        -1.0,
        -7.0,
        -0.5,
        -2.25,
        1e-3,
        0.3,
        0.99,
        1.0,
        1.5,
        2.0,
        3.7,
        11.5,
        12.0,
        -12.0,
        13.0,
        90.0,
    )
    for dtype in FLOATS:
        d, tol = name_of(dtype), ulps(dtype, 32)
        x = T((21,), dtype, values=points)
        yield Case(f"special_{d}", each(SPECIAL), [x], rtol=tol, atol=ulps(dtype, 8))
        yield zeta_case(dtype)
        logit = lambda x: (torch.logit(x, 0.01), torch.logit(x / 100 + 0.5))
        yield Case(f"logit_{d}", logit, [x], rtol=tol, atol=ulps(dtype, 8), own="1 - x is rounded to x's dtype")
        b = T((1, 12), dtype, values=SPECIALS)
        yield Case(f"special_pairs_{d}", each(PAIRS), [T((12, 1), dtype, values=SPECIALS), b])
        scaled = lambda x, n: (torch.ldexp(x, n), torch.ldexp(x, n.to(x.dtype)))
        exponents = T((7,), I32, values=(0, 3, -5, 200, -200, 12, -13))
        yield Case(
            f"ldexp_{d}",
            scaled,
            [T((12, 1), dtype, values=SPECIALS), exponents],
            rtol=ulps(dtype, 4),
            own="2^200 is infinite in the smaller dtypes, and 0 * 2^200 is NaN",
        )
    divisors = each([torch.gcd, torch.lcm])
    for dtype in INTS:
        low = 0 if dtype is U8 else -50
        yield Case(f"gcd_{name_of(dtype)}", divisors, [T((9, 7), dtype, low, 50), T((7,), dtype, low, 11)])


def zeta_case(dtype):
    """Below 0, terms of both signs of an odd power may cancel. torch's own trigamma has about nine digits."""
    points = (
        NAN,
        0.0,
        -0.0,
        -1.0,
        -7.0,
        -0.5,
        -2.25,
        -15.5,
        -17.25,
        -40.25,
        1e-2,
        0.3,
        0.99,
        1.0,
        1.5,
        3.75,
        9.0,
        12.0,
        90.0,
        INF,
    )
    others = lambda x: (
        *(torch.polygamma(n, x[3:]) for n in (2, 3, 4, 7)),
        torch.polygamma(1, x[5:].abs() + 0.25)[: 0 if dtype is F64 else 99],
    )
    zeta = lambda x: (
        torch.special.zeta(torch.tensor([0, 1, 2, 3, 4, 5, NAN, INF, 1e20], dtype=x.dtype)[:, None], x), torch.special.zeta(2.5, x.abs()), torch.special.zeta(x.abs() + 1, 3.0),
    )  # fmt: skip
    both = lambda x: (*others(x), *zeta(x)) if dtype in (F32, F64) else others(x)  # torch has no 16-bit zeta
    return Case(
        f"zeta_{name_of(dtype)}", both, [T((20,), dtype, values=points)], rtol=ulps(dtype, 32), atol=ulps(dtype, 8)
    )


def unary_cases():
    for dtype in FLOATS:
        d, tol = name_of(dtype), ulps(dtype, 32)
        # erfc and the activations lose digits near zero results: the absolute tolerance is a few ulp of 1.
        yield Case(f"unary_{d}", each(ANY + GELU), [T((3, 5, 7), dtype, -4, 4)], rtol=tol, atol=ulps(dtype, 8))
        yield Case(f"unary_positive_{d}", each(POSITIVE), [T((33,), dtype, 0.1, 9)], rtol=tol, atol=ulps(dtype, 4))
        yield Case(f"unary_unit_{d}", each(UNIT), [T((2, 19), dtype, -0.95, 0.95)], rtol=tol, atol=ulps(dtype, 4))
        yield Case(f"acosh_{d}", torch.acosh, [T((17,), dtype, 1.5, 9)], rtol=tol, atol=ulps(dtype, 4))
        yield Case(
            f"unary_specials_{d}",
            each(ANY + POSITIVE + UNIT),
            [T((24,), dtype, values=SPECIALS)],
            rtol=tol,
            atol=ulps(dtype, 8),
        )
    signed = [torch.neg, torch.abs, torch.sign, torch.relu, torch.bitwise_not, torch.logical_not, torch.square]
    for dtype in INTS:
        functions = [f for f in signed if dtype is not U8 or f not in (torch.neg,)]
        yield Case(f"unary_{name_of(dtype)}", each(functions), [T((5, 13), dtype, -128, 127 if dtype is I8 else 200)])
    yield Case("unary_bool", each([torch.bitwise_not, torch.logical_not]), [T((9, 3), BOOL)])
    extremes = (torch.iinfo(I64).min, torch.iinfo(I64).max, 0, -1, 2**53 + 1)
    yield Case(
        "unary_i64_extremes",
        each([torch.neg, torch.abs, torch.sign, torch.bitwise_not]),
        [T((10,), I64, values=extremes)],
    )


def float_binary_cases():
    for dtype in FLOATS:
        d, tol = name_of(dtype), ulps(dtype, 32)
        # Exact multiples make floor and trunc divisions agree however the quotient is rounded.
        eighths = tuple(i / 4 for i in (-17, 9, 22, -3, 14, 5, -8, 31, 2, -11, 7))
        divisors = (0.5, -0.25, 1.5, 2.0, -3.0)
        yield Case(
            f"binary_{d}",
            each(BINARY),
            [T((5, 11), dtype, values=eighths), T((11,), dtype, values=divisors)],
            rtol=tol,
            atol=ulps(dtype, 2),
        )
        yield Case(
            f"binary_random_{d}",
            each([torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum]),
            [T((3, 1, 5), dtype), T((4, 1), dtype)],
            rtol=tol,
        )
        yield Case(
            f"pow_{d}",
            each([torch.pow, lambda a, b: a**2, lambda a, b: a**3, lambda a, b: a**0.5, lambda a, b: 2.0**b]),
            [T((4, 9), dtype, 0.2, 3), T((4, 9), dtype)],
            rtol=tol,
            atol=ulps(dtype, 2),
        )
        yield Case(
            f"compare_{d}", each(COMPARE), [T((6, 12), dtype, values=SPECIALS), T((12,), dtype, values=SPECIALS[::-1])]
        )
        pairs = [
            torch.add,
            torch.sub,
            torch.mul,
            torch.div,
            torch.maximum,
            torch.minimum,
            torch.atan2,
            torch.hypot,
            torch.fmod,
        ]
        yield Case(
            f"binary_specials_{d}",
            each(pairs),
            [T((12, 1), dtype, values=SPECIALS), T((1, 12), dtype, values=SPECIALS)],
            rtol=tol,
            atol=ulps(dtype, 2),
        )


def beyond(x):
    """Numbers that the 8-bit dtypes cannot hold: arithmetic wraps, comparisons do not."""
    return (
        *(x == -1, x < -1, x > 300, x == 200, x == 300, torch.where(x > 5, x, -1), x.masked_fill(x > 5, -1)),
        *(x + 300, 300 - x, x * -1, x & 300, x | -1, x // -3, x % 300, torch.fmod(x, -3), x.clamp(min=-1), x**9),
    )


def integer_binary_cases():
    for dtype in INTS:
        d = name_of(dtype)
        high = 127 if dtype is I8 else 250
        ops = each(INTEGER + COMPARE)
        yield Case(f"binary_{d}", ops, [T((7, 9), dtype, -high, high), T((9,), dtype, 1, 9)])
        if dtype is not U8:
            yield Case(f"binary_negative_{d}", ops, [T((7, 9), dtype, -high, high), T((7, 1), dtype, -9, -1)])
        shifts = each([torch.bitwise_left_shift, torch.bitwise_right_shift])
        yield Case(f"shift_{d}", shifts, [T((5, 5), dtype, 0 if dtype is U8 else -100, 100), T((5,), dtype, 0, 6)])
        counts = (0, 7, 8, 31, 32, 63, 64, 100) + (() if dtype is U8 else (-1, -100))
        values = (0, 1, 100) if dtype is U8 else (0, 1, -1, 100, -100)
        out_of_range = [T((5, 1), dtype, values=values), T((10,), dtype, values=counts)]
        yield Case(f"shift_out_of_range_{d}", shifts, out_of_range)
    yield Case("wrap_u8", each([torch.add, torch.sub, torch.mul]), [T((300,), U8, 0, 255), T((300,), U8, 0, 255)])
    yield Case("wrap_i8", each([torch.add, torch.sub, torch.mul]), [T((300,), I8, -128, 127), T((300,), I8, -128, 127)])
    yield Case("numbers_beyond_u8", beyond, [T((300,), U8, 0, 255)])
    yield Case("numbers_beyond_i8", beyond, [T((300,), I8, -128, 127)])
    big = (2**53 + 1, -(2**62), 2**62 + 3, 12345678901234567, -1)
    yield Case(
        "big_i64",
        each([torch.add, torch.sub, torch.mul, lambda a, b: a + 2**53 + 1, lambda a, b: a * 3 - b]),
        [T((10,), I64, values=big), T((10,), I64, -5, 5)],
    )
    yield Case(
        "binary_bool",
        each([*COMPARE, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.maximum]),
        [T((8, 4), BOOL), T((4,), BOOL)],
    )
    powers = each([lambda a: a**2, lambda a: a**3, lambda a: torch.pow(a, 0)])
    yield Case("pow_i64", powers, [T((21,), I64, -9, 9)])
    yield Case("pow_i32", powers, [T((21,), I32, -9, 9)])


def scalar_cases():
    scalars = [lambda x: x + 1, lambda x: 2.5 - x, lambda x: x * 3, lambda x: x / 4, lambda x: 1 / x, lambda x: torch.add(x, 2, alpha=3),
               lambda x: x > 1, lambda x: x == 2, lambda x: torch.rsub(x, 1), lambda x: x % 3]  # fmt: skip
    for dtype in (*FLOATS, I32, I64, U8):
        yield Case(
            f"scalars_{name_of(dtype)}",
            each(scalars),
            [T((4, 6), dtype, 1, 8)],
            rtol=ulps(dtype, 2) or 1e-6,
            atol=ulps(dtype, 4),
        )
    mixed = lambda i, f, h, b: (i + f, i * 2.5, h + f, h * i, b + i, b * f, i / 2, b & (i > 0), torch.true_divide(i, 3))
    yield Case("promotion", mixed, [T((5, 3), I64, -9, 9), T((3,), F32), T((5, 1), F16), T((1, 3), BOOL)], rtol=1e-6)


def shape_cases():
    add = lambda a, b: (a + b) * b
    for dtype in (F32, F16, I32):
        d = name_of(dtype)
        shapes = {
            "scalar": ((), ()), "scalar_vector": ((), (5,)), "one": ((1,), (1, 1)), "empty": ((0, 3), (3,)), "empty_inner": ((2, 0), (1, 1)),
            "long": ((1, 10007), (10007,)), "both_ways": ((3, 1, 5, 1), (1, 4, 1, 6)), "leading": ((2, 3), (4, 5, 2, 3)),
            "rank8": ((2, 1, 2, 1, 2, 1, 2, 3), (1, 3, 1, 2, 1, 2, 1, 3)),
        }  # fmt: skip
        for name, (a, b) in shapes.items():
            yield Case(f"shapes_{name}_{d}", add, [T(a, dtype), T(b, dtype)], rtol=ulps(dtype, 4), atol=ulps(dtype, 8))
        strided = {
            "transposed": (lambda x, y: torch.tanh(x.t().float()) + y, ((6, 9), (9, 6))),
            "sliced": (lambda x, y: x[1::2, ::3] * y, ((9, 10), (4, 4))),
            "flipped": (lambda x, y: x.flip(0) - y, ((6, 9), (6, 9))),
            "expanded": (lambda x, y: x.expand(4, 7, 5) + y.expand(4, 7, 5), ((7, 1), (4, 1, 5))),
            # Lines and columns that fill tiles, and remainders.
            "turned": (lambda x, y: 3 * x.mT - y, ((2, 83, 37), (2, 37, 83))),
            "turned_both": (lambda x, y: (x.mT + y.mT) * x.mT, ((150, 16), (150, 16))),
            # Lines of several parts.
            "turned_wide": (lambda x, y: x.mT - y, ((530, 17), (17, 530))),
            "permuted": (lambda x, y: x.permute(2, 0, 1) + y, ((3, 4, 5), (5, 3, 4))),
            "select": (lambda x, y: x[:, 2] + y, ((3, 4, 5), (3, 5))),
        }
        for name, (f, (a, b)) in strided.items():
            yield Case(
                f"strided_{name}_{d}",
                f,
                [T(a, dtype), T(b, dtype)],
                rtol=ulps(dtype, 8) or 1e-6,
                atol=ulps(dtype, 8) or 1e-6,
            )


def where_cases():
    for dtype in (*FLOATS, I32, I64, U8, BOOL):
        d = name_of(dtype)
        yield Case(f"where_{d}", torch.where, [T((4, 1, 7), BOOL), T((5, 7), dtype), T((4, 5, 1), dtype)])
        if dtype is BOOL:
            continue
        clamps = [lambda x, a, b: x.clamp(-1, 1), lambda x, a, b: x.clamp(min=0), lambda x, a, b: x.clamp(max=1),
                  lambda x, a, b: torch.clamp(x, a, b), lambda x, a, b: x.masked_fill(x > 1, 0)]  # fmt: skip
        if dtype is U8:
            clamps = clamps[1:]
        yield Case(f"clamp_{d}", each(clamps), [T((4, 7), dtype, -3, 3), T((7,), dtype, 0, 1), T((7,), dtype, 1, 2)])
    yield Case("clamp_nan", lambda x: (x.clamp(-1, 1), torch.where(x > 0, x, 0.0)), [T((24,), values=SPECIALS)])


def cast_cases():
    everything = (*FLOATS, *INTS, BOOL)
    for dtype in everything:
        functions = [lambda x, t=t: x.to(t) for t in everything if t is not dtype]
        low = 0 if dtype is U8 else -100
        # Every dtype holds these values; conversion of larger ones is undefined. Floats are not negative.
        spec = T((3, 43), dtype, 0 if dtype.is_floating_point else low, 100)
        yield Case(f"cast_{name_of(dtype)}", each(functions), [spec])
    floats = [lambda x, t=t: x.to(t) for t in (F16, BF16, F64, BOOL, F32)]
    tiny = (1e-8, 6e-8, 65504.0, 65519.0, 65520.0, 1e30, 3.3895e38, 1.0000001, 1 / 3)
    for dtype in (F32, F64):
        yield Case(f"cast_rounding_{name_of(dtype)}", each(floats), [T((44,), dtype, values=SPECIALS + tiny)])
    for dtype in (F16, BF16):
        yield Case(
            f"cast_rounding_{name_of(dtype)}",
            each(floats),
            [T((44,), dtype, values=(*SPECIALS, 6e-08, 6.1e-05, 1 / 3))],
        )
    ties = [sign * (1 + odd * 2.0**-bits) for bits in (8, 11) for odd in (1, 3, 5) for sign in (1, -1)]
    yield Case("cast_ties", each([lambda x, t=t: x.to(t) for t in (F16, BF16)]), [T((40,), F32, values=ties)])
    yield Case("cast_negative", each([lambda x, t=t: x.to(t) for t in (I8, I32, I64)]), [T((31,), F32, -100, 100)])


def chain_cases():
    chain = lambda x, y: torch.sigmoid(x * y + 1) * torch.tanh(y) - fn.gelu(x) / (y.abs() + 1)
    for dtype in FLOATS:
        # Each step rounds to the dtype, in torch and in clave; a different last place may grow through the other steps.
        yield Case(
            f"chain_{name_of(dtype)}",
            chain,
            [T((7, 31), dtype), T((31,), dtype)],
            rtol=4 * ulps(dtype, 8),
            atol=4 * ulps(dtype, 8),
        )
    for dtype in (F16, BF16):  # y is less than a unit in the last place of x, so without rounding the result would be y
        yield Case(f"chain_rounds_{name_of(dtype)}", lambda x, y: (x + y) - x, [T((7, 31), dtype, 64, 127), T((31,), dtype, -0.4, 0.4)])  # fmt: skip
    long = lambda x: torch.stack([x + i for i in range(12)]).sum(0) + sum((x * i).sin() for i in range(20))
    yield Case("chain_long", long, [T((5, 7))], rtol=1e-5, atol=1e-4)


def error_cases():
    good = [T((4,), I32, 1, 9), T((4,), I32, 1, 9)]
    bad = [T((4,), I32, 1, 9), T((4,), I32, values=(1, 2, 0, 3))]
    for name, f in (("floor", lambda a, b: torch.div(a, b, rounding_mode="floor")), ("remainder", torch.remainder)):
        yield Case(f"division_by_zero_{name}", f, bad, other=good, error="zero")


def cases():
    for family in (
        unary_cases,
        special_cases,
        float_binary_cases,
        integer_binary_cases,
        scalar_cases,
        shape_cases,
        where_cases,
        cast_cases,
        chain_cases,
        error_cases,
    ):
        yield from family()
