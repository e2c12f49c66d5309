"""Cumulative sums and products. Tolerance: torch adds one term after the other, rounding each to the accumulation dtype; so
do we, or by blocks, which is at least as good: the error of a sum of n terms (describe.sums)."""

import torch

from describe import BOOL, F32, FLOATS, I32, I64, INTS, U8, Case, T, name_of, sums, ulps


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
