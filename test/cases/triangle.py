"""tril and triu, and causal masks made of them. Exact."""

import torch

from describe import BOOL, F32, FLOATS, I32, I64, U8, Case, T, name_of


def cases():
    for dtype in (*FLOATS, I32, I64, U8, BOOL):
        f = lambda x: tuple(g(x, k) for g in (torch.tril, torch.triu) for k in (0, 1, -2, 9, -9))
        yield Case(f"both_{name_of(dtype)}", f, [T((2, 5, 7), dtype, 1, 100)])
    yield Case("strided", lambda x: (x.t().tril(), x[::2].triu(1)), [T((6, 4))])
    yield Case("nan_dropped", lambda x: torch.tril(x), [T((4, 4), values=(float("nan"), 1.0, float("inf")))])
    yield Case(
        "mask", lambda x: x.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf")), [T((5, 5), F32)]
    )
    yield Case("empty", torch.tril, [T((0, 3))])
