"""Reductions, argmax and argmin.

Tolerance of sums: torch sums f32 in f32 by blocks, the CPU backend in f64, devices in f32 by trees; see describe.sums. Products
have one rounding per factor. Extremes, any, all and indices are exact.
"""

import torch

from describe import BOOL, F32, FLOATS, I32, I64, INF, INTS, NAN, U8, Case, T, name_of, sums, ulps

AXES = {"last": (-1,), "first": (0,), "middle": (1,), "two": (0, 2), "all": None}


def summing(axes, keepdim):
    if axes is None:
        return lambda x: (
            x.sum(),
            x.mean(),
            torch.linalg.vector_norm(x),
            torch.linalg.vector_norm(x, 1),
            x.std(),
            x.var(correction=0),
        )
    k = {"dim": axes, "keepdim": keepdim}
    return lambda x: (
        x.sum(**k), x.mean(**k), torch.linalg.vector_norm(x, 2, **k), torch.linalg.vector_norm(x, 1, **k), x.std(**k),
        x.var(correction=0, **k),
    )  # fmt: skip


def extremes(axes, keepdim):
    if axes is None:
        return lambda x: (x.max(), x.min(), x.amax(), x.amin(), x.argmax(), x.argmin())
    functions = [lambda x: x.amax(axes, keepdim), lambda x: x.amin(axes, keepdim)]
    if len(axes) == 1:
        a = axes[0]
        functions += [
            lambda x: tuple(x.max(a, keepdim)),
            lambda x: tuple(x.min(a, keepdim)),
            lambda x: x.argmax(a, keepdim),
            lambda x: x.argmin(a, keepdim),
        ]
    return lambda x: tuple(f(x) for f in functions)


def cases():
    # A group of work-items sums a row, which is small enough for oclgrind.
    yield Case("teams_f32", lambda x: (x.sum(-1), x.amax(-1)), [T((3, 200))], rtol=1e-5, atol=1e-5)
    for dtype in FLOATS:
        d = name_of(dtype)
        for name, axes in AXES.items():
            keep = name in ("middle", "two")
            tol = {"rtol": ulps(dtype, 16), "atol": sums(dtype, 700)}
            yield Case(f"sums_{name}_{d}", summing(axes, keep), [T((5, 13, 11), dtype)], **tol)
            yield Case(f"extremes_{name}_{d}", extremes(axes, keep), [T((5, 13, 11), dtype, -100, 100)])
        yield Case(
            f"prod_{d}",
            lambda x: (x.prod(), x.prod(1), x.prod(0, keepdim=True)),
            [T((5, 7), dtype, 0.8, 1.2)],
            rtol=16 * ulps(dtype, 4),
        )
        yield Case(
            f"logical_{d}",
            lambda x: (x.any(), x.all(), x.any(1), x.all(0)),
            [T((5, 3), dtype, values=(0, 0, 0, 1, NAN))],
        )
        yield Case(
            f"strided_{d}",
            lambda x: (x.t().sum(0), x[::2, 1:].mean(1), x.t().amax(1)),
            [T((9, 30), dtype)],
            rtol=ulps(dtype, 16),
            atol=sums(dtype, 30),
        )
        nans = (1.0, NAN, -INF, INF, 2.0, -3.0, 0.5)
        yield Case(
            f"nan_{d}",
            lambda x: (x.amax(1), x.amin(0), x.argmax(1), x.argmin(1), x.sum(1)),
            [T((5, 5), dtype, values=nans)],
            rtol=ulps(dtype, 4),
        )
    for dtype in (*INTS, BOOL):
        d = name_of(dtype)
        functions = lambda x: (
            x.sum(),
            x.sum(1),
            x.sum((0, 2), keepdim=True),
            x.any(),
            x.all(),
            x.any(1),
            x.all(2),
            x.prod(2),
        )
        yield Case(f"integer_{d}", functions, [T((4, 9, 5), dtype, 0 if dtype is U8 else -9, 9)])
        if dtype is not BOOL:
            yield Case(f"extremes_{d}", extremes((1,), False), [T((4, 9, 5), dtype, -100, 100)])
            yield Case(f"extremes_all_{d}", extremes(None, False), [T((4, 9, 5), dtype, -100, 100)])
    yield from shape_cases()


def shape_cases():
    tol = {"rtol": 1e-5, "atol": sums(F32, 1 << 20)}
    yield Case("long_f32", lambda x: (x.sum(), x.mean(1), x.amax(), x.argmax()), [T((3, 300007), low=-1)], **tol)
    yield Case("wide_f32", lambda x: (x.sum(0), x.mean(0), x.amax(0), x.var(0)), [T((7, 20011))], rtol=1e-5, atol=1e-5)
    yield Case("scalar_f32", lambda x: (x.sum(), x.mean(), x.amax(), x.argmax(), x.prod()), [T(())])
    yield Case(
        "scalar_keepdim", lambda x: (x.argmax(0, True), *x.max(0, True), *x.min(-1, True), x.sum(0, True)), [T(())]
    )
    yield Case(
        "logical_sums",
        lambda x: (x.prod(1, dtype=torch.bool), x.sum(1, dtype=torch.bool), x.sum(dtype=torch.bool)),
        [T((5, 7), I32, low=-1, high=2)],
    )
    yield Case("one_f32", lambda x: (x.sum(1), x.mean(1), x.amax(1), x.argmin(1)), [T((5, 1, 3))], rtol=1e-6)
    yield Case("empty_f32", lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod(0), x.mean(0)), [T((0, 4))])
    yield Case("empty_kept_f32", lambda x: (x.amax(1), x.argmax(1), x.sum(1)), [T((0, 4))])
    yield Case("empty_logical", lambda x: (x.any(), x.all(), x.any(0), x.all(1)), [T((0, 4), BOOL)])
    yield Case("nan_mean_empty", lambda x: (x.mean(), x.sum()), [T((0,))])
    yield Case(
        "rank6_f32",
        lambda x: (x.sum((0, 3, 5)), x.amax((1, 2)), x.mean((0, 1, 2, 3, 4, 5))),
        [T((2, 3, 2, 3, 2, 3))],
        rtol=1e-5,
        atol=1e-5,
    )
    yield Case(
        "dtype_sum",
        lambda x, i: (x.sum(dtype=torch.float64), i.sum(dtype=I32), i.float().mean(), i.sum(dtype=F32)),
        [T((5, 5)), T((9,), I64, -9, 9)],
        rtol=1e-5,
        atol=1e-5,
    )
    yield Case(
        "ties",
        lambda x: (x.argmax(1), x.argmin(1), x.argmax(), *x.max(1)),
        [T((6, 40), I32, values=(1, 3, 3, 0, 0, 3, 2))],
    )
