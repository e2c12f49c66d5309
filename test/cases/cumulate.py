"""Cumulative sums and products. Tolerance: torch adds one term after another and rounds each to the accumulation dtype.
clave does so too, or sums by blocks, which is at least as accurate: the error of a sum of n terms (describe.sums)."""

import torch

from describe import BOOL, F32, F64, FLOATS, I32, I64, INF, INTS, NAN, U8, Case, T, name_of, sums, ulps


def cases():
    for dtype in FLOATS:
        d = name_of(dtype)
        for axis in (0, 1, -1):
            tol = {"rtol": ulps(dtype, 16), "atol": sums(dtype, 37)}
            yield Case(f"sum_axis{axis}_{d}", lambda x, a=axis: torch.cumsum(x, a), [T((5, 37, 3), dtype)], **tol)
        yield Case(f"prod_{d}", lambda x: torch.cumprod(x, 0), [T((9, 5), dtype, 0.7, 1.3)], rtol=9 * ulps(dtype, 4))
    for dtype in (*INTS, BOOL):
        yield Case(
            f"sum_{name_of(dtype)}",
            lambda x: (torch.cumsum(x, 1), torch.cumsum(x, 0)),
            [T((6, 11), dtype, 0 if dtype is U8 else -50, 50)],
        )
    yield Case("sum_strided", lambda x: torch.cumsum(x.t(), 1), [T((1001, 3))], rtol=1e-5, atol=sums(F32, 1001))
    yield Case("sum_long", lambda x: torch.cumsum(x, 0), [T((70001,), I64, -(2**40), 2**40)])
    yield Case("sum_scalar", lambda x: torch.cumsum(x, 0), [T(())])
    yield Case("sum_empty", lambda x: (torch.cumsum(x, 0), torch.cumsum(x, 1)), [T((0, 3))])
    yield Case("sum_dtype", lambda x: torch.cumsum(x, 0, dtype=F32), [T((9,), I32, -5, 5)])
    yield from extreme_cases()


def extremes(axis):
    return lambda x: (*torch.cummax(x, axis), *torch.cummin(x, axis))


def extreme_cases():
    odd = (1.0, -0.0, 0.0, 3.0, 3.0, -INF, INF, INF, NAN, 2.0, NAN, 5.0, 4.0)
    for dtype in (*FLOATS, *INTS, BOOL):
        d = name_of(dtype)
        x = T((3, 13), dtype, values=odd) if dtype.is_floating_point else T((3, 40), dtype, 0 if dtype is U8 else -9, 9)
        yield Case(f"extremes_{d}", lambda x: (*extremes(1)(x), *extremes(0)(x)), [x])
        if dtype.is_floating_point:
            # torch adds one exponential after another, each in the dtype itself
            tol = {"rtol": ulps(dtype, 16), "atol": 37 * ulps(dtype, 1)}
            yield Case(f"logsumexp_{d}", lambda x: torch.logcumsumexp(x, 1), [T((5, 37, 3), dtype, -20, 20)], **tol)
    infinite = T((3, 7), F64, values=(-INF, -INF, 1.0, 2.0, INF, 3.0, -INF, 1.0, NAN, 2.0, 0.5))
    yield Case("logsumexp_infinite", lambda x: torch.logcumsumexp(x, 1), [infinite], rtol=1e-13)
    yield Case("extremes_long", extremes(0), [T((100003,), I32, -(10**6), 10**6)])
    yield Case("logsumexp_long", lambda x: torch.logcumsumexp(x, 0), [T((70001, 2))], rtol=1e-5)
    yield Case("prod_long", lambda x: torch.cumprod(x, 0), [T((70001,), I64, -(2**40), 2**40)])
    yield Case("sum_long_f32", lambda x: torch.cumsum(x, 0), [T((70001, 17))], rtol=1e-5, atol=sums(F32, 70001, 2))
    yield Case(
        "extremes_shapes",
        lambda x, e: (*torch.cummax(x, 0), *torch.cummin(e, 1), torch.logcumsumexp(x, 0)),
        [T(()), T((2, 0))],
    )
