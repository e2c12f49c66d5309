"""histc, histogram, bincount. Counts are exact; densities and weights have a few roundings."""

import torch

from describe import BF16, F16, F32, F64, I8, I16, I32, I64, INF, NAN, U8, Case, T, name_of, sums, ulps

SPECIAL = (0.0, NAN, 1.0, INF, -INF, 0.999, -0.0, -1e-30, 2.0, 1e30, 0.5)


def histc_cases():
    for dtype in (F32, F64, F16, BF16):
        whole = lambda x: (torch.histc(x.round(), 5, -2, 2), torch.histc(x, 1, -1, 1), torch.histc(x.round(), 4, 0, 3))
        yield Case(f"histc_{name_of(dtype)}", whole, [T((7, 33), dtype)])
    for dtype in (F32, F64):
        data = lambda x: (
            torch.histc(x, 10),
            torch.histc(x[0], 3, 1, 1),
            torch.histc(x[:0], 3),
            torch.histc(x[:1, :1], 3),
        )
        yield Case(f"histc_of_data_{name_of(dtype)}", data, [T((5, 41), dtype)])
    yield Case("histc_special", lambda x: torch.histc(x, 4, 0, 1), [T((50,), values=SPECIAL)])
    yield Case("histc_strided", lambda x: torch.histc(x.t()[::2], 7, -2, 2), [T((9, 8))])
    n = torch.export.Dim("n", max=99)
    experts = lambda x: torch.histc(x.float(), bins=8, min=0, max=7).cumsum(0, dtype=torch.int32)
    sizes = {"other": [T((60,), I64, 0, 9)], "dynamic_shapes": {"args": ({0: n},)}}
    yield Case("histc_experts", experts, [T((20,), I64, 0, 9)], **sizes)


def histogram_cases():
    for dtype in (F32, F64):
        f = lambda x, w: (
            *torch.histogram(x, 9), *torch.histogram(x, 4, range=(-1.0, 1.0)), *torch.histogram(x, 5, weight=w, density=True), *torch.histogram(x, 6, density=True),
            *torch.histogram(x, torch.tensor([-1.5, -1.0, 0.25, 0.75], dtype=x.dtype), weight=w),
        )  # fmt: skip
        yield Case(
            f"histogram_{name_of(dtype)}",
            f,
            [T((7, 23), dtype), T((7, 23), dtype, 0, 1)],
            rtol=ulps(dtype, 16),
            atol=sums(dtype, 161),
        )
    special = lambda x: torch.histogram(x, torch.tensor([0.0, 0.5, 1.0]))
    yield Case("histogram_special", special, [T((50,), values=SPECIAL)])


def bincount_cases():
    for dtype in (I8, U8, I16, I32, I64):
        f = lambda x: (
            torch.bincount(x),
            torch.bincount(x, minlength=9),
            torch.bincount(x, minlength=2),
            torch.bincount(x[:0]),
        )
        yield Case(f"bincount_{name_of(dtype)}", f, [T((40,), dtype, 0, 6)], other=[T((40,), dtype, 0, 11)])
    for dtype in (F32, F64, I32):
        weighted = lambda x, w: (torch.bincount(x, w), torch.bincount(x, w, minlength=30))
        yield Case(
            f"bincount_weights_{name_of(dtype)}",
            weighted,
            [T((40,), I64, 0, 20), T((40,), dtype)],
            rtol=ulps(dtype, 8),
            atol=sums(dtype, 40),
        )
    n = torch.export.Dim("n", max=99)
    sizes = {"other": [T((60,), I64, 0, 9)], "dynamic_shapes": {"args": ({0: n},)}}
    yield Case("bincount_dynamic", lambda x: torch.bincount(x) * 2, [T((20,), I64, 0, 5)], **sizes)
    negative = {"other": [T((3,), I64, 0, 4)], "error": "out of range"}
    yield Case("bincount_negative", lambda x: torch.bincount(x), [T((3,), I64, values=(1, -2, 3))], **negative)


def cases():
    yield from histc_cases()
    yield from histogram_cases()
    yield from bincount_cases()
