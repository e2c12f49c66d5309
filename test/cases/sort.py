"""Sorting, topk and ops on sorted rows. All exact. clave's sorts are always stable, torch's on request. torch's topk,
kthvalue, median and mode return any of equal elements, so their indices are tested by the elements that they select."""

import torch

from describe import BOOL, F32, FLOATS, I16, I32, I64, INF, INTS, NAN, U8, Case, T, name_of

TIES = (3.0, -0.0, NAN, 0.0, -INF, 3.0, INF, -1.5, NAN, 0.0, 2.0, -0.0, -1.5)


def gathered(f, axis):
    """Returns a function that returns the values, and the elements that the indices select."""

    def run(x):
        values, indices = f(x)
        return values, torch.gather(x, axis, indices) if indices.dim() else x

    return run


def both(x, axis):
    """Sorts up and down, stably."""
    return (*torch.sort(x, dim=axis, stable=True), *torch.sort(x, dim=axis, descending=True, stable=True))


def everything(x):
    plain = gathered(lambda x: torch.sort(x, 0), 0)(x)
    top = () if x.dtype is BOOL else gathered(lambda x: torch.topk(x, 3, 1), 1)(x)
    return (*both(x, 1), *plain, torch.argsort(x, dim=0, stable=True), torch.msort(x), *top)


def long_rows(x):
    """Returns sorted rows, and their first few or many elements, the last of which equals some that are dropped."""
    top = (
        () if x.dtype is BOOL else [gathered(lambda x, k=k: torch.topk(x, k, 1, k != 45), 1)(x) for k in (20, 45, 200)]
    )
    return (*both(x, 1), *(t for pair in top for t in pair))


def ends(x):
    """The largest elements, and the smallest."""
    return (*gathered(lambda x: torch.topk(x, 60, 1), 1)(x), torch.topk(x, 45, 1, largest=False)[0])


def first_of_columns(x):
    return (*torch.topk(x, 5, 0), *torch.topk(x, 40, 0, largest=False), *torch.topk(x, 1, 0))


def cases():
    for dtype in (*FLOATS, *INTS, BOOL):
        d = name_of(dtype)
        x = T((4, 45), dtype, 0 if dtype is U8 else -20, 20)
        if dtype.is_floating_point:
            x = T((4, 26), dtype, values=TIES)
        yield Case(f"all_{d}", everything, [x])
        if dtype.is_floating_point:
            x = T((3, 421), dtype, values=(*(i * 7.0 % 181 - 90 for i in range(181)), *TIES, -NAN))
        else:
            x = T((3, 421), dtype, 0 if dtype is U8 else -100, 100)
        yield Case(f"rows_{d}", long_rows, [x])
    for dtype in (F32, I64):
        d = name_of(dtype)
        wide = T((3, 5003, 2), dtype, -(2**40), 2**40)
        yield Case(f"middle_{d}", lambda x: both(x, 1), [wide])
        yield Case(f"topk_{d}", first_of_columns, [T((30011, 2), dtype, -(2**62), 2**62)])
    yield Case("long_f32", lambda x: both(x, 0)[:2], [T((200001,))])
    yield Case("few_of_long", lambda x: gathered(lambda x: torch.topk(x, 60, 0), 0)(x), [T((90001,), I16, -500, 500)])
    yield Case("few_of_long_rows", ends, [T((3, 9001))])
    least = gathered(lambda x: torch.topk(x, 45, 1, largest=False), 1)
    yield Case("few_of_nans", least, [T((3, 421), values=(*[NAN] * 20, 1.0))])
    yield Case("long_ties", lambda x: both(x, 0)[2:], [T((70001,), I32, 0, 50)])
    yield Case("strided", lambda x: (*both(x.t()[:, ::3], 1), *both(x.expand(2, 90, 7), 0)), [T((90, 7))])
    yield Case(
        "shapes",
        lambda x, e, o: (*torch.sort(x), *torch.sort(e, 1), *torch.topk(e, 0, 1), *torch.sort(o, 1), torch.argsort(x)),
        [T(()), T((2, 0)), T((4, 1))],
    )
    yield Case(
        "dynamic",
        lambda x: (*both(x, 0), torch.topk(x, 2, 0)[0], x.median(0)[0]),
        [T((9, 3))],
        other=[T((120, 3))],
        dynamic_shapes=(({0: torch.export.Dim("n", min=3)},),),
    )
    yield Case(
        "kth",
        lambda x: (*gathered(lambda x: torch.kthvalue(x, 4, 1, True), 1)(x), torch.kthvalue(x, 26, 1)[0]),
        [T((3, 26), values=TIES)],
    )
    yield Case("median", medians, [T((3, 26), values=TIES), T((5, 8), values=(NAN, NAN, 1.0, 3.0, 2.0, NAN, 7.0))])
    yield Case(
        "median_int", lambda x: (x.median(), *x.median(0), x.median(1, True)[0]), [T((5, 8), I32, -(2**31), 2**31 - 1)]
    )
    yield Case(
        "mode",
        lambda x, f: (x.mode(1)[0], *gathered(lambda x: x.mode(0, True), 0)(x), f.mode(1)[0]),
        [T((6, 40), I32, 0, 9), T((2, 13), values=TIES)],
    )
    yield Case(
        "quantile",
        lambda x: (torch.quantile(x, 0.3, 1), torch.nanquantile(x, 0.75, 0), torch.quantile(x, 0.5)),
        [T((7, 31))],
        rtol=1e-6,
        atol=1e-6,
    )


def medians(x, y):
    return (
        x.median(),
        y.nanmedian(),
        x.median(1)[0],
        y[:, :1].nanmedian(1)[0],
        *y.nanmedian(0),
        *y.median(1),
        y.nanmedian(1)[0],
    )
