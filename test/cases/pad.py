"""pad: constant (negative too), reflect, replicate, circular. Exact."""

import torch.nn.functional as fn

from describe import BF16, BOOL, F16, F32, FLOATS, I16, I32, I64, U8, Case, T, name_of


def cases():
    for dtype in (*FLOATS, I32, I64, U8, BOOL):
        value = 1.5 if dtype.is_floating_point else 1
        constant = lambda x, v=value: (
            fn.pad(x, (1, 2)),
            fn.pad(x, (0, 1, 2, 0), value=v),
            fn.pad(x, (1, 0, 0, 0, 2, 1), value=v),
        )
        yield Case(f"constant_{name_of(dtype)}", constant, [T((2, 3, 5), dtype, 0, 100)])
    for dtype in FLOATS:
        for mode in ("reflect", "replicate", "circular"):
            f = lambda x, y, m=mode: (fn.pad(x, (2, 1), m), fn.pad(y, (1, 2, 3, 0), m))
            yield Case(f"{mode}_{name_of(dtype)}", f, [T((2, 3, 5), dtype), T((2, 3, 4, 6), dtype)])
    yield Case("crop", lambda x: (fn.pad(x, (-1, 2)), fn.pad(x, (1, -2, -1, -1), value=3.0)), [T((4, 5, 6))])
    negative = lambda x: (
        fn.pad(x, (-3, 4, 1, -1), "replicate"),
        fn.pad(x, (5, -4, -2, 6), "replicate"),
        fn.pad(x, (-1, 2, 2, -1), "reflect"),
        fn.pad(x, (-1, 1, -2, 1), "circular"),
        fn.pad(x, (2, -1, 0, 1), "circular"),
        fn.pad(x[0], (1, 2), "replicate"),
    )
    for dtype in (F32, I64):
        yield Case(f"negative_{name_of(dtype)}", negative, [T((2, 3, 4, 5), dtype, -99, 99)])
    volume = lambda x: tuple(fn.pad(x, (1, 2, 0, 1, 2, 1), m) for m in ("reflect", "replicate", "circular", "constant"))
    for dtype in (F32, I16):
        yield Case(f"volume_{name_of(dtype)}", volume, [T((1, 2, 3, 3, 4), dtype, -99, 99)])
    yield Case("true", lambda x: fn.pad(x, (1, 2), value=2), [T((3, 4), BOOL)])
    yield Case("infinite", lambda x: fn.pad(x, (1, 1), value=float("-inf")), [T((3, 4))])
    # Just above the middle between two 16-bit numbers: torch rounds the value to F32 first.
    for dtype, bits in ((F16, 11), (BF16, 8)):
        value = 1 + 2.0**-bits + 2.0**-30
        yield Case(f"value_{name_of(dtype)}", lambda x, v=value: fn.pad(x, (1, 2), value=v), [T((3, 4), dtype)])
    yield Case("strided", lambda x: fn.pad(x.t()[::2], (1, 1, 0, 2)), [T((5, 8))])
    yield Case("empty", lambda x: fn.pad(x, (1, 1)), [T((3, 0), F32)])
    yield Case("vector", lambda x: fn.pad(x, (3, 4)), [T((5,))])
    yield Case("shortcut", lambda x: fn.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 2, 2)), [T((2, 4, 8, 8))])
