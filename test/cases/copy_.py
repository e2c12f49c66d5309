"""view(dtype): bytes as another dtype, exact."""

import torch

from describe import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, INF, NAN, U8, Case, T, name_of

SIZES = {1: (I8, U8), 2: (F16, BF16, I16), 4: (F32, I32), 8: (F64, I64)}
EXACT = "bytes are not numbers"


def bits(x):
    """Returns the results as integers, so that every bit of a NaN counts."""
    return x if not x.dtype.is_floating_point else x.view({2: I16, 4: I32, 8: I64}[x.element_size()])


def cases():
    for dtypes in SIZES.values():
        for dtype in dtypes:
            for to in (d for n, ds in SIZES.items() for d in ds if d is not dtype):
                f = lambda x, to=to: bits(x.view(to))
                yield Case(f"bits_{name_of(dtype)}_{name_of(to)}", f, [T((3, 5, 8), dtype, -100, 100)], own=EXACT)
    numbers = T((3, 5), F32, values=(NAN, INF, -INF, -0.0, 1e-45, 1.0, -3.4e38))
    yield Case("bits_special", lambda x: (x.view(I32), x.view(I16), x.double().view(I64)), [numbers], own=EXACT)
    yield Case("bits_of_bool", lambda m: m.view(U8) + m.view(I8), [T((3, 4), BOOL)])
    shapes = lambda x: (
        x.view(I16),
        x[0, 0].view(F32),
        x[:0].view(U8),
        x[:, :0].view(U8),
        x[:, :4].view(F64),
        x[1:, 2:].view(I8),
    )
    yield Case("bits_shapes", shapes, [T((3, 8), I32, -1000, 1000)], own=EXACT)
    strided = lambda x: (x.t().view(F32), x.t()[::2].view(I32).flip(0), x[:, ::2].contiguous().view(U8))
    yield Case("bits_strided", strided, [T((4, 6), I32, -1000, 1000)], own=EXACT)
    n = torch.export.Dim("n", max=99)
    sizes = {"other": [T((9, 4), I32)], "dynamic_shapes": {"args": ({0: n},)}}
    yield Case("bits_dynamic", lambda x: x.view(I64) + 1, [T((3, 4), I32)], own=EXACT, **sizes)
