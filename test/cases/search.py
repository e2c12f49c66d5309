"""bucketize and searchsorted. Exact."""

import torch

from describe import F32, FLOATS, I32, I64, INF, INTS, NAN, U8, Case, T, name_of

EDGES = (-1.5, -1.0, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0)


def both(b, x):
    return (torch.bucketize(x, b), torch.searchsorted(b, x, right=True), torch.bucketize(x, b, out_int32=True))


def cases():
    for dtype in FLOATS:
        x = T((3, 9), dtype, values=(*EDGES, -0.0, INF, -INF, NAN, 0.75, 3.0))
        yield Case(
            f"float_{name_of(dtype)}", both, [T((8,), dtype, values=EDGES), x], other=[T((8,), dtype, values=EDGES), x]
        )
    for dtype in INTS:
        b = T((6,), dtype, values=(0, 3, 3, 50, 51, 100))
        x = T((40,), dtype, 0 if dtype is U8 else -5, 105)
        yield Case(f"int_{name_of(dtype)}", both, [b, x], other=[b, x])
    rows = lambda b, x: (
        torch.searchsorted(b.sort(-1)[0], x),
        torch.searchsorted(b.sort(-1)[0], x, side="right", out_int32=True),
    )
    yield Case("rows", rows, [T((2, 3, 50)), T((2, 3, 7))])
    yield Case("sorter", lambda b, x: torch.searchsorted(b, x, sorter=b.argsort(-1)), [T((4, 33)), T((4, 20))])
    yield Case("scalar", lambda b: (torch.searchsorted(b.sort()[0], 0.25), torch.bucketize(1, b.sort()[0])), [T((33,))])
    yield Case(
        "mixed", lambda b, x: torch.bucketize(x, b.sort()[0].to(I64)), [T((9,), I32, -9, 9), T((9,), I64, -9, 9)]
    )
    yield Case("strided", lambda b, x: torch.bucketize(x.t(), b.sort()[0][::2]), [T((90,)), T((20, 30))])
    yield Case("empty", both, [T((0,)), T((3,))])
    yield Case(
        "no_values",
        both,
        [T((3,), values=(1.0, 2.0, 3.0)), T((0, 2))],
        other=[T((3,), values=(1.0, 2.0, 3.0)), T((0, 2))],
    )
    yield Case("long", lambda b, x: torch.searchsorted(b.sort()[0], x), [T((100003,)), T((5003,), F32)])
    order = T((3,), I64, values=(2, 7, 0))
    yield Case(
        "bad_sorter", lambda b, x, o: torch.searchsorted(b, x, sorter=o % 8), [T((3,)), T((4,)), order],
        other=[T((3,)), T((4,)), T((3,), I64, values=(2, 1, 0))], error="index 7 out of range [0, 2]",
    )  # fmt: skip
