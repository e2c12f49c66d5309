"""softmax and log_softmax. Tolerance: one exp (3 ulp), a sum and a division of numbers below 1."""

import torch

from describe import BF16, BOOL, F16, F32, F64, FLOATS, I32, INF, NAN, Case, T, name_of, sums, ulps


def both(axis):
    return lambda x: (torch.softmax(x, axis), torch.log_softmax(x, axis))


def in_a_row(x):
    for axis in (0, 1) * 5:
        x = torch.softmax(x, axis)
    return x


def cases():
    yield Case("in_a_row", in_a_row, [T((3, 5))], rtol=1e-5, atol=1e-6)  # one launch on OpenCL devices
    shapes = {
        "row": ((3, 7), -1),
        "column": ((5, 9), 0),
        "middle": ((2, 33, 5), 1),
        "vector": ((1000,), 0),
        "long": ((2, 32003), -1),
        "one": ((4, 1), 1),
    }
    for dtype in FLOATS:
        for name, (shape, axis) in shapes.items():
            tol = {"rtol": ulps(dtype, 32), "atol": ulps(dtype, 8)}
            yield Case(f"{name}_{name_of(dtype)}", both(axis), [T(shape, dtype, -8, 8)], **tol)
    specials = (1.0, -INF, 2.0, -INF, -INF, 0.5, 3.0)
    yield Case("masked", both(-1), [T((6, 5), values=specials)], rtol=1e-5, atol=1e-6)
    yield Case("all_masked", both(-1), [T((2, 3), values=(-INF,))], other=[T((2, 3))], rtol=1e-5, atol=1e-6)
    yield Case("nan", both(-1), [T((6, 5), values=(1.0, NAN, 2.0, INF, 0.0, -1.0, 4.0, 3.0))], rtol=1e-5, atol=1e-6)
    for dtype in FLOATS:  # their exponentials are infinite
        low = 800 if dtype is F64 else 100
        functions = lambda x: (*both(-1)(x), *both(0)(x))
        tol = {"rtol": ulps(dtype, 32), "atol": ulps(dtype, 16)}
        yield Case(f"large_{name_of(dtype)}", functions, [T((7, 19), dtype, low, low + 8)], **tol)
    yield Case("large", both(-1), [T((4, 9), F32, 1e4, 1.0002e4)], rtol=1e-5, atol=1e-5)
    yield Case("columns_large", both(0), [T((9, 20), F32, 1e4, 1.0002e4)], rtol=1e-5, atol=1e-5)
    yield Case("columns_long", both(0), [T((300, 20), F32, -8, 8)], rtol=ulps(F32, 32), atol=ulps(F32, 8))
    yield Case("strided", lambda x: torch.softmax(x.transpose(0, 1)[::2], -1), [T((17, 8))], rtol=1e-5, atol=1e-6)
    yield Case("scalar", both(0), [T(())])
    yield Case("empty", both(1), [T((0, 4))])
    yield Case("scalar_f64", both(-1), [T((), F64)], rtol=1e-14)
    kinds = lambda x, m: (torch.softmax(x, 0, dtype=F64), torch.log_softmax(x, 1, dtype=F64), torch.nn.functional.softmin(x, -1), torch._masked_softmax(x, m, 1))  # fmt: skip
    yield Case("kinds", kinds, [T((4, 7)), T((4, 7), BOOL)], rtol=1e-5, atol=1e-6)
    yield Case(
        "of_integers",
        lambda x: (torch.softmax(x, -1, dtype=F32), torch.log_softmax(x, 0, dtype=F64)),
        [T((3, 5), I32)],
        rtol=1e-5,
        atol=1e-6,
    )
    for n in (128, 129, 300):  # along columns, by lanes
        yield Case(f"column_{n}", both(0), [T((n, 5), F32, -8, 8)], rtol=ulps(F32, 32), atol=ulps(F32, 8))
        half = [T((2, n, 3), BF16, -4, 4)]
        yield Case(f"column_{n}_bf16", both(1), half, rtol=ulps(F32, 32), atol=ulps(F32, 8))
    yield Case("empty_row", both(1), [T((4, 0))])
    yield Case("to_f32", lambda x: torch.softmax(x, -1, dtype=F32), [T((3, 8), F16)], rtol=1e-5, atol=1e-6)
