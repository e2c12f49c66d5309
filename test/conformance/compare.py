"""Compares a result with torch's. Integers, bools and 8-bit floats must be equal. Other floats must be near torch's
eager result in the same dtype, or as near to the same computation in f64 as torch's result is.

Errors allowed (per element; ulp: the result's unit in the last place, acc: the accumulator's eps, f32's for 16 bits)
  pointwise ops   ULP[op] ulp (OpenCL's table of relative errors), or twice torch's own distance from the f64 result.
                  Sums of a few terms that may cancel (COMPOSED): also 2 acc of the largest term; if torch rounds the
                  terms to the dtype (ROUNDED_TERMS), 2 eps of the dtype instead. Functions whose terms of about 1
                  cancel at a zero (ZEROS): also 4 acc.
  other ops       4 * acc * sqrt(n) * M + 2 ulp, or twice the largest distance of torch's result from the f64 result:
                  sums of n terms. n is at most the elements of the inputs, and M the largest magnitude of the result on
                  the inputs' absolute values. The spread of rounding errors grows with sqrt(n); 4 covers its tail.
  amplifying ops  AMPLIFIED[op] ulp more, if the op magnifies a rounding of an intermediate number.
"""

import contextlib
import dataclasses
import math
from typing import Any

import mpmath
import torch

EPS = {d: torch.finfo(d).eps for d in (torch.float32, torch.float16, torch.bfloat16, torch.float64)}

# OpenCL 1.2 full profile, table 7.4, for f32; 4 for functions that are not listed.
ULP = {"pow": 16, "erf": 16, "erfc": 16, "atan": 5, "atan2": 6, "tan": 5, "tanh": 5, "atanh": 5, "float_power": 16}
DEFAULT_ULP = 4
# Sums of a few terms that may cancel: with products, quotients or a remainder as terms.
COMPOSED = {"add", "sub", "rsub", "__rsub__", "addcmul", "addcdiv", "lerp", "nn.functional.tanhshrink"}
# Sums whose terms torch first rounds to the dtype: a term next to a rounding boundary may go either way.
ROUNDED_TERMS = {"mvlgamma.mvlgamma_p_3", "mvlgamma.mvlgamma_p_5"}
COMPOSED |= ROUNDED_TERMS
# Functions with other zeros: gamma functions by reflection and recurrence, max(a, b) + log1p(exp(-|a - b|)).
ZEROS = {"digamma", "lgamma", "mvlgamma.mvlgamma_p_1", "logaddexp", "logaddexp2"}
# Relative change of the result by the change of a rounded intermediate number. I0(x) changes by x, at most 12 here. A
# weight p of a softmax changes by p (1 - p) <= 1/4 of its score, at most 9,694 here. An inverse changes by the matrix's
# condition number, at most 109 here.
AMPLIFIED = {
    "signal.windows.kaiser": 12,
    "nn.functional.multi_head_attention_forward": 9694 / 4,
    "linalg.pinv.hermitian": 109,
}
POLYGAMMA = (*(f"polygamma.polygamma_n_{n}" for n in range(5)), "special.polygamma.special_polygamma_n_0")
ZEROS |= set(POLYGAMMA)


def polygamma(x: Any, n: int) -> Any:
    """Returns the n-th derivative of digamma; an odd one has the same infinity on both sides of a pole. Below 0 by
    reflection at x and at y = x - floor(x), whose cotangents are equal: mpmath needs a step for each whole number."""
    if x <= 0 and x == mpmath.floor(x):
        return mpmath.inf if n % 2 else mpmath.nan
    if x > 0:
        return mpmath.polygamma(n, x)
    y, sign = x - mpmath.floor(x), -1 if n % 2 == 0 else 1
    return mpmath.polygamma(n, y) + sign * (mpmath.polygamma(n, 1 - y) - mpmath.polygamma(n, 1 - x))


# Ops for which torch's f64 is not exact: near poles, its digamma and trigamma use a rounded multiple of pi, and its
# trigamma has only three terms of its series.
EXACT = {"digamma": mpmath.digamma} | dict.fromkeys(POLYGAMMA, polygamma)
# Zeros whose sign torch does not define: softshrink's vector code returns 0 where the code for the rest of a row
# returns -0. For 0 and -0, C lets fmax and fmin return either, and torch's result depends on the dtype.
ANY_ZERO = {"nn.functional.softshrink", "fmax", "fmin"}


@dataclasses.dataclass
class Reference:
    """The reference: torch's result, the same computation in f64 (or None), and the magnitude of its sums."""

    want: list[Any]
    exact: list[Any] | None
    magnitude: float
    terms: int


@dataclasses.dataclass
class Difference:
    """Returns the largest error in units in the last place, and a description of an error that is too large."""

    ulp: float = 0.0
    wrong: str = ""


def compare(name: str, pointwise: bool, ours: list[Any], r: Reference) -> Difference:
    if len(ours) != len(r.want):
        return Difference(wrong=f"expected {len(r.want)} results, got {len(ours)}")
    total = Difference()
    for i, (a, b) in enumerate(zip(ours, r.want, strict=True)):
        exact = r.exact[i] if r.exact is not None else None
        d = _compare_one(name, pointwise, a, b, exact, r)
        total.ulp = max(total.ulp, d.ulp)
        if d.wrong:
            where = f"result {i}: " if len(ours) > 1 else ""
            return Difference(total.ulp, where + d.wrong)
    return total


def _compare_one(name: str, pointwise: bool, a: Any, b: Any, exact: Any, r: Reference) -> Difference:
    if not isinstance(b, torch.Tensor):
        if isinstance(b, bool | int | float) and isinstance(a, bool | int | float):
            a, b = torch.tensor(a), torch.tensor(b)
        else:
            return Difference(wrong="" if a == b else f"expected {b!r}, got {a!r}")
    if not isinstance(a, torch.Tensor):
        return Difference(wrong=f"expected a tensor, got {type(a).__name__} {a!r}")
    if a.dtype != b.dtype:
        return Difference(wrong=f"expected dtype {b.dtype}, got {a.dtype}")
    if a.shape != b.shape:
        return Difference(wrong=f"expected shape {list(b.shape)}, got {list(a.shape)}")
    a, b, exact = map(_parts, (a, b, exact))
    if b.dtype.is_floating_point and b.dtype.itemsize == 1:  # every code counts
        a, b = a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)
    if not b.dtype.is_floating_point:
        return _first(a != b, a, b) if b.numel() else Difference()
    usable = isinstance(exact, torch.Tensor) and exact.dtype == torch.float64 and exact.shape == b.shape
    return _compare_floats(name, pointwise, a, b, exact if usable else None, r)


def _parts(x: Any) -> Any:
    """Returns a complex tensor as one of its real and imaginary parts, and anything else unchanged."""
    return torch.view_as_real(x.resolve_conj()) if isinstance(x, torch.Tensor) and x.is_complex() else x


def _compare_floats(name: str, pointwise: bool, a: Any, b: Any, exact: Any, r: Reference) -> Difference:
    if not b.numel():
        return Difference()
    ours, want = a.double(), b.double()
    same = (ours == want) | (ours.isnan() & want.isnan())
    distance = (ours - want).abs()
    ulp = unit(want, b.dtype)
    acc = EPS[torch.float64 if b.dtype is torch.float64 else torch.float32]
    if pointwise:
        allowed = ULP.get(name, DEFAULT_ULP) * ulp
        if name in COMPOSED:
            allowed += 2 * (EPS[b.dtype] if name in ROUNDED_TERMS else acc) * r.magnitude
        if name in ZEROS:
            allowed += DEFAULT_ULP * acc
    else:
        allowed = 4 * acc * math.sqrt(r.terms) * r.magnitude + 2 * ulp
    allowed += AMPLIFIED.get(name, 0) * ulp
    right = same | (distance <= allowed)
    if exact is not None:
        right |= _as_near_as_torch(pointwise, ours, want, exact, allowed)
        right |= _nearer_than_infinity(ours, want, exact, b.dtype) | (ours == exact)
        distance = torch.where(exact.isfinite(), torch.minimum(distance, (ours - exact).abs()), distance)
    if pointwise and name not in ANY_ZERO:
        right &= (want != 0) | (ours != 0) | (ours.signbit() == want.signbit())
    finite = distance.isfinite() & ~same
    largest = float((distance / ulp)[finite].max()) if finite.any() else 0.0
    if right.all():
        return Difference(largest)
    return Difference(largest, _first(~right, a, b).wrong)


def _as_near_as_torch(pointwise: bool, ours: Any, want: Any, exact: Any, allowed: Any) -> Any:
    """True for elements at most twice as far from the f64 result as torch's own, where both are finite."""
    theirs = (want - exact).abs()
    theirs = torch.where(theirs.isfinite(), theirs, torch.zeros_like(theirs))
    if not pointwise:
        theirs = theirs.max()
    return ((ours - exact).abs() <= 2 * theirs + allowed) & want.isfinite()


def _nearer_than_infinity(ours: Any, want: Any, exact: Any, dtype: torch.dtype) -> Any:
    """True for elements that are right where an intermediate step overflowed torch's 16 bits."""
    if dtype.itemsize > 2:
        return torch.zeros_like(want, dtype=torch.bool)
    near = (ours - exact).abs() <= DEFAULT_ULP * unit(exact, dtype)
    beyond = exact.abs() > torch.finfo(dtype).max
    return ~want.isfinite() & exact.isfinite() & torch.where(beyond, ours == exact.sign() * math.inf, near)


def in_40_digits(function: Any, x: torch.Tensor, numbers: Any = ()) -> torch.Tensor:
    """Returns function(element, *numbers) for each element, rounded to f64; NaN at poles."""

    def one(value: float) -> float:
        try:
            return float(function(mpmath.mpf(value), *numbers))
        except ValueError:
            return math.nan

    values, places = x.double().unique(return_inverse=True)
    with mpmath.workdps(40):
        return torch.tensor([one(v) for v in values.tolist()], dtype=torch.float64)[places]


def unit(x: Any, dtype: torch.dtype) -> Any:
    """Returns one unit in the last place of each element (f64) in dtype; below the smallest normal number, its unit."""
    tiny = torch.finfo(dtype).tiny
    size = torch.where(x.isfinite(), x.abs(), torch.ones_like(x)).clamp_min(tiny)
    return torch.exp2(torch.floor(torch.log2(size))) * EPS[dtype]


def _first(bad: Any, a: Any, b: Any) -> Difference:
    """Describes the first element that differs, and the number of elements that do."""
    if not bad.any():
        return Difference()
    where = tuple(int(i) for i in bad.nonzero()[0])
    n = int(bad.sum())
    more = f" ({n} of {b.numel()} elements)" if b.numel() > 1 else ""
    return Difference(wrong=f"at {list(where)}: expected {b[where].item()!r}, got {a[where].item()!r}{more}")


def magnitude(module: Any, tensors: Any, exact: list[Any]) -> float:
    """Returns the largest finite magnitude of the op's results on its inputs and on their absolute values."""
    results = list(exact)
    with contextlib.suppress(Exception):  # not every op is defined for absolute values
        takes_abs = lambda t: t.dtype.is_floating_point or t.is_complex()
        results += module(*(t.abs().to(t.dtype) if takes_abs(t) else t for t in tensors))
    results = [_parts(t) for t in results]
    floats = [t.double().abs() for t in results if isinstance(t, torch.Tensor) and t.dtype.is_floating_point]
    return max((float(torch.where(t.isfinite(), t, 0.0).max()) for t in floats if t.numel()), default=0.0)
