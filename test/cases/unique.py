"""unique and unique_consecutive: the second run finds a different number of distinct elements."""

import torch

from describe import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, INF, NAN, U8, Case, T, name_of


def all_of(x, **more):
    return torch.unique(x, return_inverse=True, return_counts=True, **more)


def runs_of(x, **more):
    return torch.unique_consecutive(x, return_inverse=True, return_counts=True, **more)


def cases():
    for dtype in (F32, F16, BF16, F64, I8, U8, I16, I32, I64, BOOL):
        f = lambda x: (*all_of(x), torch.unique(x), *runs_of(x), torch.unique_consecutive(x))
        whole = lambda x: f(x.round() if x.dtype.is_floating_point else x)
        yield Case(f"values_{name_of(dtype)}", whole, [T((5, 7), dtype, 0, 4)], other=[T((5, 7), dtype, 0, 40)])
    special = T((14,), F32, values=(INF, -0.0, 1.0, 0.0, NAN, 1.0, -INF))
    yield Case("values_special", lambda x: (*all_of(x), *runs_of(x)), [special])
    shapes = lambda x: (*all_of(x[0, 0]), *all_of(x[:0]), *runs_of(x[0, 0]), *runs_of(x[:0]), *all_of(x.t()[1:, ::2]))
    yield Case("values_shapes", shapes, [T((4, 5), I32, 0, 3)])
    one = {"other": [T((30,), I64, values=(7,))]}
    yield Case("values_all_equal", lambda x: (*all_of(x), *runs_of(x)), [T((30,), I64, 0, 99)], **one)
    rows = lambda x: (*all_of(x, dim=0), *all_of(x, dim=1), *all_of(x, dim=-1), *runs_of(x, dim=0), *runs_of(x, dim=2))
    yield Case("rows", rows, [T((7, 3, 2), I32, 0, 1)], other=[T((7, 3, 2), I32, 0, 9)])
    yield Case(
        "rows_alone",
        lambda x: (torch.unique(x, dim=0), torch.unique_consecutive(x, dim=1)),
        [T((9, 2), F32, values=(1.0, 2.0, 1.0))],
    )
    yield Case("used", lambda x: torch.unique(x).float().softmax(0) * 2, [T((20,), I64, 0, 9)], rtol=1e-6, atol=1e-6)
    n = torch.export.Dim("n", max=99)
    sizes = {"other": [T((60,), I64, 0, 9)], "dynamic_shapes": {"args": ({0: n},)}}
    yield Case("values_dynamic", lambda x: (*all_of(x), *runs_of(x)), [T((20,), I64, 0, 9)], **sizes)
