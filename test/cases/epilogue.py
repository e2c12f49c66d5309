"""Elementwise steps after a product, a convolution or a norm, which become its epilogue: each kind of operand and of
loop, on kernels for few and many rows, with plain, packed and quantised weights. Tolerance: that of the op before them,
times the factor of the steps."""

import numpy as np
import torch
import torch.nn.functional as fn
from encoded import block_values, of_groups, random_blocks

from describe import BF16, F16, F32, F64, FLOATS, I32, Case, T, name_of, products, ulps

SIZES = {"row": (1, 300, 67), "few": (5, 65, 130), "some": (24, 96, 33), "many": (70, 300, 200), "column": (37, 65, 1)}


def tolerance(dtype, k, factor=1, cancels=False):
    # a 16-bit result of the op may round to the other neighbour, and steps that cancel do not reduce this error
    neighbour = 4 * torch.finfo(dtype).eps if dtype in (F16, BF16) and cancels else 0
    return {"rtol": ulps(dtype, 16), "atol": factor * 2 * products(dtype, k) + neighbour, "steps": 1}


def product_steps(a, b, full, row, column):
    """row: (N), column: (M, 1); `full` is read directly and transposed. Equal products would be merged."""
    y = lambda n: (a * (1 - n / 8)) @ b
    return (
        torch.relu(y(0)),
        full - y(1),
        y(2) * row + column,
        torch.where(y(3) > row, column, full) + 1.5,
        y(4) + full.mT.contiguous().mT,
        y(5) + row[:1] * 0.5,
    )


def scaled(x, w, r, n):
    """A size of the input is an operand. The second product reads an operand of the first."""
    y = fn.linear(x, w) * x.shape[0] + r
    return y, torch.relu(fn.linear(x - 1, w) + fn.linear(x + 1, w)), n


class Linear(torch.nn.Module):
    """A layer with constant weights, for sizes that depend on data."""

    def __init__(self, w):
        super().__init__()
        self.w = torch.nn.Parameter(torch.as_tensor(w), requires_grad=False)

    def forward(self, x, r):
        y = fn.linear(x, self.w)
        return fn.gelu(y * 0.125) + r, fn.silu(fn.linear(x[:3], self.w, r[0]) * 0.125), fn.linear(x[:1], self.w) - r[:1]


def product_cases():
    for dtype in FLOATS:
        d = name_of(dtype)
        for name, (m, k, n) in SIZES.items():
            inputs = [T((m, k), dtype), T((k, n), dtype), T((m, n), dtype), T((n,), dtype), T((m, 1), dtype)]
            yield Case(f"product_{name}_{d}", product_steps, inputs, **tolerance(dtype, k, 2, True))
        w = torch.rand(67, 130, generator=torch.Generator().manual_seed(1)).mul(4).sub(2).to(dtype)
        yield Case(f"constant_{d}", Linear(w), [T((24, 130), dtype), T((24, 67), dtype)], **tolerance(dtype, 130))
    integers = lambda a, b, c: (torch.relu(a @ b) - c, ((a + 1) @ b) // 7 + c)
    yield Case("product_i32", integers, [T((5, 9), I32, -9, 9), T((9, 11), I32, -9, 9), T((5, 11), I32, -9, 9)])
    batches = lambda a, b, c, d: (a @ b * c, torch.relu(-a @ b) + d, (a / 2 @ b + d).mT * 2)
    yield Case(
        "product_batches_f32",
        batches,
        [T((2, 3, 5, 40)), T((3, 40, 18)), T((2, 1, 5, 1)), T((3, 1, 18))],
        **tolerance(F32, 40, 4),
    )
    rows = torch.export.Dim("rows", min=2, max=64)
    yield Case(
        "product_open_f32",
        scaled,
        [T((4, 33)), T((18, 33)), T((4, 18)), T((3,))],
        [T((9, 33)), T((18, 33)), T((9, 18)), T((3,))],
        dynamic_shapes=(({0: rows}, None, {0: rows}, None),),
        **tolerance(F32, 33, 16),
    )
    yield from quantised_cases()


def quantised_cases():
    random = np.random.default_rng(5)
    weights = {kind.replace(":", "_"): of_groups(kind, 256, random) for kind in ("int4:32", "int8", "e4m3:32")}
    stored = random_blocks("Q4_K", 256, random)
    weights["q4_k"] = block_values("Q4_K", stored.rows), stored
    for name, (values, stored) in weights.items():
        yield Case(
            f"quantised_{name}",
            Linear(values.astype(np.float32)),
            [T((24, 256)), T((24, len(values)))],
            quantize=lambda _name, _weight, stored=stored: stored,
            **tolerance(F32, 256),
        )


PLANES = {  # x, weight, arguments
    "padded": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}), "strided": ((1, 3, 12, 39), (4, 3, 3, 3), {"stride": 2, "padding": 1}), "wide": ((1, 16, 14, 35), (33, 16, 3, 3), {"padding": 1}),
    "pointwise": ((2, 37, 5, 6), (9, 37, 1, 1), {}), "squeezed": ((3, 37, 1, 1), (29, 37, 1, 1), {}), "depthwise": ((2, 6, 9, 18), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    # The last vector of a row extends beyond its end.
    "row_ends": ((1, 2, 4, 79), (4, 2, 3, 3), {}),
    "valid": ((1, 3, 8, 20), (6, 3, 3, 3), {}),
}  # fmt: skip


def conv_steps(conv, **arguments):
    def run(x, w, b, channel, line):
        y = lambda n: conv(x * (1 - n / 8), w, b, **arguments)
        return torch.relu(y(0) + channel), fn.silu(y(1)) * line, y(2).clamp(0, 6) + line.shape[0]

    return run


def conv_cases():
    for dtype in (F32, F16):
        for name, (x, w, arguments) in PLANES.items():
            columns = fn.conv2d(torch.zeros(x), torch.zeros(w), **arguments).shape[-1]
            inputs = [T(s, dtype) for s in (x, w, (w[0],), (w[0], 1, 1), (columns,))]
            taps = w[1] * w[2] * w[3]
            yield Case(
                f"conv_{name}_{name_of(dtype)}", conv_steps(fn.conv2d, **arguments), inputs, **tolerance(dtype, taps, 2)
            )
    for stride in (1, 2):
        inputs = [T((2, 5, 6, 17)), T((5, 9, 3, 3)), T((9,)), T((9, 1, 1)), T((17 + 2 if stride == 1 else 35,))]
        steps = conv_steps(fn.conv_transpose2d, stride=stride)
        yield Case(f"conv_transpose_{stride}_f32", steps, inputs, **tolerance(F32, 45, 2))
    inputs = [T((1, 4, 7, 6, 9)), T((6, 2, 3, 3, 2)), T((6,)), T((6, 1, 1, 1)), T((8,))]
    yield Case("conv_3d_f32", conv_steps(fn.conv3d, groups=2, padding=(1, 0, 0)), inputs, **tolerance(F32, 36, 2))


def rms_norm(x):
    """Computes the norm as Hugging Face's models do: 16-bit numbers are rounded once."""
    y = x if x.dtype == F64 else x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def norm_steps(x, w, c):
    n = x.shape[-1:]
    return (
        rms_norm(x) * w,
        fn.layer_norm(x, n, w) + x,
        torch.relu(fn.group_norm(x, 2) - 0.25),
        fn.silu(fn.batch_norm(x, c[0], c[1].abs() + 1)) * w,
        rms_norm(x.mT.contiguous()).mT * w,
    )


def norm_cases():
    for dtype in FLOATS:
        inputs = [T((3, 6, 133), dtype), T((133,), dtype), T((2, 6), dtype)]
        tol = {"rtol": ulps(dtype, 400), "atol": ulps(dtype, 400)}
        yield Case(f"norm_{name_of(dtype)}", norm_steps, inputs, **tol)


def cases():
    yield from product_cases()
    yield from conv_cases()
    yield from norm_cases()
