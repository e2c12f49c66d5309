"""Scatter, index_add, index_put with accumulation, put, one_hot. Integers are exact. Floats are added in torch's order.
Sums and products of 16-bit floats are kept in F32 and rounded once, as in most of torch's ops."""

import torch

from describe import BF16, BOOL, F16, F32, FLOATS, I32, I64, INTS, U8, Case, T, name_of, ulps

IN_ORDER = "floats are added in torch's order"
X, INDEX, SOURCE = (5, 6, 3), (4, 5, 2), (4, 6, 3)


put = torch.ops.aten.index_put  # accepts None


def scatters(x, i, s):
    return (
        x.scatter(0, i % 5, s),
        x.scatter(1, i, s),
        x.scatter(-1, i % 3, 3),
        x.scatter_add(1, i, s),
        x.scatter_add(0, i % 2, s),
        x.index_add(1, i[0, :, 0], s[0, :5, :1].expand(5, 5, 3)),
        x.index_add(0, i[:, 0, 0] % 5, s, alpha=2),
        x.index_add(2, i[0, :, 0] % 3, x[:, :, :1].expand(5, 6, 5)),
        x.index_fill(1, i[0, :, 0] - 3, 7),
        x.put(i * 3 - 9, s[:, :5, :2]),
        x.index_put((i[:, 0, 0] % 5, i[:, 1, 0] - 6), s[:, 0], accumulate=True),
        put(x, (i[:2, 0, 0] - 5, None, i[:2, 0, 1] % 3), s[:2, :, 0], True),
    )


def reductions(x, i, s):
    kinds = ("sum", "prod", "mean", "amax", "amin")
    return (
        *(x.scatter_reduce(1, i, s, k, include_self=b) for k in kinds for b in (True, False)),
        x.scatter(1, i, s, reduce="add"),
        x.scatter(1, i, s, reduce="multiply"),
        x.scatter(1, i, 2, reduce="multiply"),
        x.index_reduce(0, i[:, 0, 0] % 5, s, "amax"),
        x.index_reduce(0, i[:, 0, 0] % 5, s, "mean", include_self=False),
        x.index_reduce(0, i[:, 0, 0] % 5, s, "prod"),
    )


def cases():
    for dtype in (*FLOATS, *INTS, BOOL):
        d = name_of(dtype)
        x, i, s = T(X, dtype, 0, 9), T(INDEX, I64, 0, 4), T(SOURCE, dtype, 0, 9)
        if dtype is BOOL:
            yield Case("plain_bool", lambda x, i, s: (x.scatter(1, i, s), x.scatter_add(1, i, s)), [x, i, s])
            continue
        eps = ulps(dtype, 4)
        tolerance = {"rtol": eps, "atol": eps}
        if dtype in (F16, BF16):
            yield Case(f"plain_{d}", scatters, [x, i, s], **tolerance)
            yield from long_sums(dtype)
        else:
            yield Case(f"plain_{d}", scatters, [x, i, s], own=IN_ORDER)
        yield Case(f"reduce_{d}", reductions, [x, i, T(SOURCE, dtype, 1, 3)], **tolerance)
    yield from shape_cases()
    yield from mask_cases()
    yield from error_cases()


def long_sums(dtype):
    """Adds thousands of numbers at one place, where a sum in 16 bits would stop growing."""
    sums = lambda x, i, s: (
        x.scatter_add(0, i, s),
        x.scatter_reduce(0, i, s, "sum"),
        x.scatter_reduce(0, i, s, "mean", include_self=False),
        x.index_reduce(0, i, s, "mean", include_self=False),
        x.scatter_reduce(0, i, 1 + s / 256, "prod"),
    )
    halves = T((6000,), dtype, values=(0.5,))
    yield Case(f"long_{name_of(dtype)}", sums, [T((2,), dtype), T((6000,), I64, 0, 1), halves], rtol=ulps(F32, 6000))
    rows = lambda x, i, s: (x.t().scatter_add(1, i.t(), s.t()), x.scatter_add(0, i, s))
    wide = [T((3, 5), dtype), T((3000, 5), I64, 0, 2), T((3000, 5), dtype, 0.25, 0.75)]
    yield Case(f"long_rows_{name_of(dtype)}", rows, wide, rtol=ulps(F32, 64))


def shape_cases():
    nan, inf = float("nan"), float("inf")
    special = T((12,), F32, values=(nan, 1.0, -0.0, 0.0, inf, -inf, 2.0))
    yield Case(
        "special",
        lambda x, i, s: tuple(x.scatter_reduce(0, i, s, k) for k in ("amax", "amin", "sum")),
        [T((5,), F32, values=(0.0, nan, -0.0, 1.0)), T((12,), I64, 0, 4), special],
    )
    last = lambda x, i, s: (x.scatter(0, i, s), x.index_copy(0, i, s), x.index_put((i,), s))
    yield Case("last_wins", last, [T((9,), I32), T((700,), I64, 0, 8), T((700,), I32, 0, 9999)])
    many = lambda x, i, s: (
        x.index_add(0, i, s),
        x.t().index_add(1, i, s.t()),
        x.scatter_add(0, i[:, None].expand(-1, 9), s),
    )
    yield Case("many", many, [T((40, 70)), T((900,), I64, 0, 39), T((900, 70))], rtol=1e-5, atol=1e-5)
    wide = lambda x, i, s: (x.scatter_add(0, i, s), x.scatter(0, i, s))
    yield Case("wide", wide, [T((5000,), I64, 0, 9), T((20000,), I64, 0, 4999), T((20000,), I64, 0, 9999)])
    few = lambda x, i, s: (x.index_add(0, i, s), x.index_put((i - 20,), s))
    yield Case("sorted", few, [T((40,), U8), T((1024,), I32, 0, 39), T((1024,), U8)])
    strided = lambda x, i, s: x.t().scatter_add(1, i.t(), s.flip(0).t())
    yield Case("strided", strided, [T((7, 5), I32), T((9, 5), I64, 0, 6), T((9, 5), I32)])
    yield Case("scalar", lambda x, i, s: (x.scatter(0, i, s), x.index_add(0, i, s)), [T(()), T((), I64, 0, 0), T(())])
    yield Case(
        "empty",
        lambda x, i, s: (x.scatter(0, i, s), x.index_add(0, i[:, 0], s)),
        [T((3, 2)), T((0, 2), I64), T((0, 2))],
    )
    yield Case(
        "by_i32",
        lambda x, i, s: x.index_add(0, i, s),
        [T((5, 3), F16), T((4,), I32, values=(0, 3, 1, 2)), T((4, 3), F16)],
    )
    yield Case("one_hot", lambda i: torch.nn.functional.one_hot(i, 7), [T((3, 4), I64, 0, 6)])
    along = lambda x, i, s: torch.index_fill(x, 1, i, s)
    yield Case("fill_tensor", along, [T((3, 5), BF16), T((2,), I64, values=(-5, 3)), T((), BF16)])


def mask_cases():
    """Masks as indices of writes."""
    mask = T((4, 5), BOOL)
    puts = lambda x, m, v: (
        x.index_put((m,), torch.tensor(2.5)),
        x.index_put((m,), v[0]),
        x.index_put((m,), v[:1], accumulate=True),
        put(x, (None, m[0]), v[0, 0]),
        x.index_put((m.any(1), torch.tensor(2)), v[0]),
        x.masked_scatter(m[..., None], v.repeat(10, 1)),
    )
    yield Case("mask_put", puts, [T((4, 5, 3)), mask, T((2, 3))], rtol=1e-6)
    rows = lambda x, m, v: (x.index_put((m,), v), x.index_put((m,), v, accumulate=True))
    count = T((6,), BOOL, values=(True, False, True, True, False, False))
    yield Case("mask_rows", rows, [T((6, 3)), count, T((3, 3))], rtol=1e-6)


def error_cases():
    """Uses indices outside of x. Nothing may be written there."""
    x, s = T((5, 3)), T((4, 3))
    good = T((4,), I64, 0, 2)
    uses = {
        "scatter": lambda x, i, s: x.scatter(0, i[:, None].expand(4, 3), s),
        "index_add": lambda x, i, s: x.index_add(0, i, s),
        "put": lambda x, i, s: x.put(i * 1, s[:, 0]),
        "index_put": lambda x, i, s: x.index_put((i, i), s[:, 0], accumulate=True),
        "rows": lambda x, i, s: x.index_put((i,), s),
    }
    for name, f in uses.items():
        signed = name in ("scatter", "index_add")
        for where, value in {"end": 15, "far": 2**40, "below": -1 if signed else -16}.items():
            bad = T((4,), I64, values=(0, 1, value, 2))
            yield Case(f"error_{name}_{where}", f, [x, bad, s], other=[x, good, s], error="out of range", own=IN_ORDER)
    f = lambda i: torch.nn.functional.one_hot(i, 4)
    yield Case("error_one_hot", f, [T((3,), I64, values=(0, 4, 1))], other=[T((3,), I64, 0, 3)], error="out of range")
