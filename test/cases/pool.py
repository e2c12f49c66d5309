"""Max, average and adaptive pools. Maxima and their indices are exact; averages are sums of a window (describe.sums)."""

import torch.nn.functional as fn

from describe import F32, F64, FLOATS, I8, I32, I64, INF, NAN, U8, Case, T, name_of, sums, ulps

MAX = {
    "plain": {"kernel_size": 2}, "strided": {"kernel_size": 3, "stride": 2}, "padded": {"kernel_size": 3, "stride": 2, "padding": 1},
    "dilated": {"kernel_size": 2, "stride": 1, "dilation": 2}, "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True}, "uneven": {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)},
}  # fmt: skip
AVERAGE = {
    "plain": {"kernel_size": 2}, "padded": {"kernel_size": 3, "stride": 2, "padding": 1}, "own_count": {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1}, "ceil_own_count": {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1, "count_include_pad": False},
    "divisor": {"kernel_size": (2, 3), "stride": (2, 1), "divisor_override": 5},
}  # fmt: skip


def volumes(x):
    return (
        fn.max_pool3d(x, 2, 1, 1, return_indices=True),
        fn.max_pool3d(x, (3, 2, 1), (2, 1, 3), (1, 0, 0), (1, 2, 3), ceil_mode=True),
        fn.adaptive_max_pool3d(x, (2, 3, 1), return_indices=True),
        fn.adaptive_avg_pool3d(x, (3, None, 2)),
    )


def volume_means(x):
    return (
        fn.avg_pool3d(x, 2),
        fn.avg_pool3d(x, 3, 2, 1, ceil_mode=True),
        fn.avg_pool3d(x, (2, 3, 1), (1, 2, 3), (1, 1, 0), ceil_mode=True, count_include_pad=False),
        fn.avg_pool3d(x[0], 2, divisor_override=3),
        fn.local_response_norm(x, 3, 0.5, 0.75, 2.0),
    )


def integers(x, y):
    return (
        fn.max_pool2d(x, 2, 1, 1, return_indices=True),
        fn.max_pool2d(x, 3, 2, dilation=2, ceil_mode=True),
        fn.max_pool3d(y, 2),
    )


def integer_means(x):
    return fn.avg_pool2d(x, 2), fn.avg_pool1d(x[0], 3, 2, 1), fn.avg_pool3d(x[None], 3, 2, 1, count_include_pad=False)


def cases():
    for dtype in FLOATS:
        tol = {"rtol": ulps(dtype, 8), "atol": sums(dtype, 60)}
        yield Case(f"volumes_{name_of(dtype)}", volumes, [T((2, 3, 5, 6, 7), dtype)], **tol)
        if dtype in (F32, F64):
            yield Case(f"volume_means_{name_of(dtype)}", volume_means, [T((2, 3, 5, 6, 7), dtype)], **tol)
    for dtype in (I8, U8, I32, I64):
        inputs = [T((2, 3, 6, 7), dtype, -99, 99), T((1, 2, 4, 5, 6), dtype, -99, 99)]
        yield Case(f"integers_{name_of(dtype)}", integers, inputs)
    yield Case("integer_means", integer_means, [T((2, 3, 6, 7), I64, -9, 9)])
    powers = lambda x: (fn.lp_pool1d(x[0], 2, 3), fn.lp_pool2d(x, 3, 2, ceil_mode=True), fn.lp_pool3d(x[None], 1, 2))
    yield Case("lp", powers, [T((2, 3, 6, 7), F32, 0.1, 2)], rtol=1e-5, atol=1e-5)
    unpool = lambda x: fn.max_unpool2d(*fn.max_pool2d(x, 2, return_indices=True), 2)
    yield Case("unpool", unpool, [T((2, 3, 6, 8))])
    for dtype in FLOATS:
        d, tol = name_of(dtype), {"rtol": ulps(dtype, 8), "atol": sums(dtype, 9)}
        x = T((2, 3, 9, 11), dtype)
        for name, k in MAX.items():
            yield Case(f"max_{name}_{d}", lambda x, k=k: fn.max_pool2d(x, **k), [x])
        yield Case(f"max_indices_{d}", lambda x: fn.max_pool2d(x, 3, 2, 1, return_indices=True), [x])
        for name, k in AVERAGE.items():
            yield Case(f"avg_{name}_{d}", lambda x, k=k: fn.avg_pool2d(x, **k), [x], **tol)
        lines = lambda x: (
            fn.max_pool1d(x, 3, 2, 1),
            fn.avg_pool1d(x, 3, 2, 1),
            fn.adaptive_avg_pool1d(x, 4),
            fn.adaptive_max_pool1d(x, 3),
        )
        yield Case(f"lines_{d}", lines, [T((2, 3, 17), dtype)], **tol)
        for size in (1, (3, 4), (None, 5), (9, 11), (13, 2)):
            name = "x".join(str(s) for s in (size if isinstance(size, tuple) else (size,)))
            # A window may have 99 numbers.
            yield Case(
                f"adaptive_avg_{name}_{d}",
                lambda x, s=size: fn.adaptive_avg_pool2d(x, s),
                [x],
                rtol=ulps(dtype, 16),
                atol=sums(dtype, 99),
            )
        yield Case(
            f"adaptive_max_{d}", lambda x: (fn.adaptive_max_pool2d(x, (3, 4)), fn.adaptive_max_pool2d(x, 1)), [x]
        )
        yield Case(f"adaptive_max_indices_{d}", lambda x: fn.adaptive_max_pool2d(x, (3, 4), return_indices=True), [x])
    yield Case("max_nan", lambda x: fn.max_pool2d(x, 2), [T((1, 1, 6, 6), values=(1.0, NAN, 2.0, -INF, 0.0, 3.0, INF))])
    # Rows around vector widths and longer than a buffer; windows that begin before a row and end after it.
    rows = ((7, 3, 1, 1, 1), (16, 3, 2, 1, 1), (17, 5, 2, 2, 1), (33, 2, 3, 0, 1), (40, 3, 1, 1, 2), (599, 3, 2, 1, 1))
    rows_of = lambda x: tuple(
        fn.max_pool2d(x[..., :n], (2, k), (1, step), (1, pad), (1, apart)) for n, k, step, pad, apart in rows
    )
    for dtype in (*FLOATS, I8, U8, I32):
        specials = {"values": (1.0, NAN, -0.0, 2.0, -INF, 0.0, 3.0, INF, -7.0)} if dtype in FLOATS else {}
        yield Case(f"max_rows_{name_of(dtype)}", rows_of, [T((1, 2, 3, 599), dtype, **specials)])
    squares = lambda x: tuple(fn.max_pool2d(x[..., :n], 2) for n in (2, 15, 33, 70))
    specials = (1.0, NAN, -0.0, 2.0, -INF, 0.0, 3.0, INF, -7.0)
    yield Case("max_squares", squares, [T((2, 3, 7, 71), values=specials)])
    yield Case("max_low", lambda x: fn.max_pool2d(x, 3, 2, 1), [T((1, 2, 5, 5), low=-9, high=-8)])
    yield Case("unbatched", lambda x: (fn.max_pool2d(x, 2), fn.avg_pool2d(x, 2)), [T((3, 6, 6))], rtol=1e-6, atol=1e-6)
    yield Case("empty_batch", lambda x: (fn.max_pool2d(x, 2), fn.avg_pool2d(x, 2)), [T((0, 3, 6, 6))])
    yield Case("strided", lambda x: fn.max_pool2d(x.permute(0, 3, 1, 2), 2), [T((1, 6, 7, 3))])
