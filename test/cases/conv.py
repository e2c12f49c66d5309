"""Convolutions and their transposes in one to three dimensions. Tolerance: C/groups * kernel products summed in f32
(describe.products)."""

import torch
import torch.nn.functional as fn

from describe import BF16, F16, F32, F64, FLOATS, I8, I32, I64, INF, NAN, U8, Case, T, name_of, products, ulps

PLANES = {  # x, weight, arguments
    "plain": ((2, 3, 9, 11), (5, 3, 3, 3), {}), "padded": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}), "strided": ((1, 3, 12, 9), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "dilated": ((1, 2, 13, 12), (3, 2, 3, 3), {"dilation": 2, "padding": 2}), "uneven": ((1, 3, 11, 8), (4, 3, 5, 2), {"stride": (3, 1), "padding": (2, 0), "dilation": (1, 2)}),
    "pointwise": ((2, 7, 5, 6), (9, 7, 1, 1), {}), "grouped": ((2, 6, 7, 7), (4, 3, 3, 3), {"groups": 2}), "depthwise": ((2, 6, 9, 8), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    "depth_multiplier": ((1, 3, 7, 7), (6, 1, 3, 3), {"groups": 3, "stride": 2}), "same": ((1, 3, 8, 7), (4, 3, 3, 3), {"padding": "same"}), "valid": ((1, 3, 8, 7), (4, 3, 3, 3), {"padding": "valid"}),
    "whole": ((2, 3, 5, 4), (6, 3, 5, 4), {}), "one": ((1, 1, 1, 1), (1, 1, 1, 1), {}), "wide": ((1, 16, 14, 14), (33, 16, 3, 3), {"padding": 1}),
    "blocks": ((1, 40, 19, 23), (70, 40, 3, 3), {"padding": 1, "stride": (1, 2)}), "blocks_grouped": ((2, 44, 9, 20), (40, 22, 3, 3), {"groups": 2, "dilation": (2, 1)}), "blocks_depthwise": ((1, 3, 35, 40), (6, 1, 7, 7), {"groups": 3, "padding": 3, "stride": 2}),
    "pointwise_few": ((2, 20, 3, 17), (5, 20, 1, 1), {}), "pointwise_deep": ((1, 300, 4, 5), (11, 300, 1, 1), {}), "squeezed": ((3, 37, 1, 1), (29, 37, 1, 1), {}), "squeezed_many": ((17, 20, 1, 1), (9, 20, 1, 1), {}),
    "few_cells": ((1, 150, 9, 7), (21, 150, 3, 3), {"padding": 1, "stride": 2}), "few_cells_grouped": ((2, 260, 6, 5), (10, 130, 3, 3), {"groups": 2, "stride": 2}),
}  # fmt: skip
LINES = {
    "plain": ((2, 3, 19), (5, 3, 4), {}), "strided": ((1, 3, 20), (4, 3, 3), {"stride": 2, "padding": 1}), "dilated": ((2, 2, 21), (3, 2, 3), {"dilation": 3}),
    "depthwise": ((2, 6, 15), (6, 1, 5), {"groups": 6, "padding": 2}), "same": ((1, 2, 9), (3, 2, 4), {"padding": "same"}), "causal": ((1, 4, 9), (4, 1, 4), {"groups": 4, "padding": 3}),
    "blocks": ((1, 20, 300), (36, 20, 9), {"padding": 4}), "whole_depthwise": ((2, 20, 21), (40, 1, 21), {"groups": 20}),
}  # fmt: skip
# "sides": zeros before and after each spatial dimension, the last one first, as in torch's pad.
SIDES = {
    "after": ((2, 3, 10, 12), (5, 3, 3, 3), {"sides": (0, 1, 0, 1), "stride": 2}),
    "more_after": ((1, 3, 9, 11), (4, 3, 3, 3), {"sides": (1, 4, 0, 5), "padding": 1}),
    "only_before": ((1, 3, 9, 11), (4, 3, 2, 4), {"sides": (3, 0, 1, 0)}),
    "depthwise": ((2, 6, 12, 10), (6, 1, 3, 3), {"sides": (0, 1, 0, 1), "groups": 6, "stride": 2}),
    "depthwise_wide": ((1, 20, 9, 8), (20, 1, 5, 5), {"sides": (1, 2, 2, 1), "groups": 20}),
    "depthwise_far": ((1, 4, 9, 8), (4, 1, 3, 3), {"sides": (0, 7, 0, 3), "groups": 4}),
    "depthwise_lines": ((1, 33, 7, 20), (33, 1, 5, 5), {"sides": (0, 2, 1, 2), "groups": 33, "stride": (2, 1)}),
    "depthwise_rows": ((1, 5, 11, 40), (5, 1, 3, 3), {"sides": (1, 1, 1, 2), "groups": 5, "stride": (2, 1)}),
    "pointwise": ((2, 20, 5, 6), (9, 20, 1, 1), {"sides": (0, 1, 0, 2)}),
    "pointwise_strided": ((1, 20, 6, 6), (9, 20, 1, 1), {"sides": (0, 1, 0, 1), "stride": 2}),
    "blocks": ((1, 64, 13, 14), (64, 64, 3, 3), {"sides": (0, 2, 1, 0)}),
    "blocks_strided": ((1, 64, 14, 14), (64, 64, 3, 3), {"sides": (0, 1, 0, 1), "stride": 2}),
    "window": ((1, 8, 4, 3), (12, 8, 5, 5), {"sides": (0, 2, 0, 1)}),
    "grouped": ((2, 6, 7, 7), (4, 3, 3, 3), {"sides": (0, 1, 0, 1), "groups": 2, "dilation": 2}),
}
PRODUCTS = {
    "rows": ((9, 20), (7, 20), {}),
    "batches": ((2, 65, 67), (33, 67), {}),
    "tiles": ((2, 1, 70, 64), (16, 64), {}),
    "square": ((20, 24), (20, 24), {}),  # as many rows as columns
    "square_batch": ((1, 24, 24), (20, 24), {}),  # the numbers of batches, rows and terms are equal
}
VOLUMES = {
    "plain": ((2, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"padding": 1}), "strided": ((1, 4, 7, 6, 9), (6, 2, 3, 3, 2), {"stride": (2, 1, 2), "padding": (1, 0, 1), "dilation": (2, 1, 1), "groups": 2}),
    "depthwise": ((2, 3, 4, 5, 18), (6, 1, 3, 3, 3), {"groups": 3, "padding": 1}), "pointwise": ((1, 5, 3, 4, 5), (9, 5, 1, 1, 1), {}), "same": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 4), {"padding": "same"}),
    "blocks": ((1, 20, 5, 9, 10), (33, 20, 3, 3, 3), {"padding": 1, "stride": (1, 1, 2)}),
}  # fmt: skip
# Strides and dilations with and without a common divisor. If a stride exceeds the kernel, some outputs are the bias.
TRANSPOSED = {
    "plain": ((2, 5, 6, 7), (5, 9, 3, 3), {}), "upsample": ((2, 12, 5, 20), (12, 17, 4, 4), {"stride": 2, "padding": 1}), "patch": ((1, 8, 4, 18), (8, 3, 2, 2), {"stride": 2}),
    "uneven": ((1, 3, 5, 4), (3, 4, 3, 5), {"stride": (3, 2), "padding": (1, 3), "output_padding": (2, 1), "dilation": (2, 3)}), "sparse": ((1, 4, 3, 4), (4, 2, 2, 2), {"stride": (5, 3), "output_padding": (3, 0)}),
    "depthwise": ((2, 4, 5, 6), (4, 2, 3, 3), {"groups": 4, "stride": 2, "padding": 1, "output_padding": 1}), "grouped": ((1, 6, 4, 5), (6, 5, 3, 2), {"groups": 2, "stride": 2, "dilation": 2}), "cropped": ((1, 2, 3, 3), (2, 3, 3, 3), {"stride": 4, "padding": 3, "output_padding": 3}),
}  # fmt: skip
FORMS = {
    fn.conv1d: LINES,
    fn.conv2d: PLANES,
    fn.conv3d: VOLUMES,
    fn.conv_transpose1d: {
        "upsample": ((2, 7, 33), (7, 9, 16), {"stride": 8, "padding": 4}),
        "dilated": ((1, 2, 9), (2, 3, 3), {"stride": 4, "dilation": 6}),
    },
    fn.conv_transpose2d: TRANSPOSED,
    fn.conv_transpose3d: {
        "strided": ((1, 4, 3, 4, 5), (4, 6, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": (0, 1, 1)}),
        "grouped": ((2, 4, 3, 2, 5), (4, 3, 2, 3, 4), {"stride": (1, 2, 3), "dilation": (3, 1, 2), "groups": 2}),
    },
}


def tolerance(dtype, weight):
    terms = torch.Size(weight[1:]).numel()
    # torch's 16-bit convolutions may round the sums of blocks, which adds one unit of a sum's size
    return {"rtol": ulps(dtype, 8), "atol": 2 * products(dtype, terms + 1)}


def one_by_one(dtype):
    """Returns each entry of the tables as a separate case."""
    d = name_of(dtype)
    for f, table in FORMS.items():
        for name, (x, w, k) in table.items():
            if dtype in (F16, F64) and f in (fn.conv_transpose1d, fn.conv_transpose3d, fn.conv3d):
                continue  # covered by bf16 and f32
            outputs = w[1] * k.get("groups", 1) if "transpose" in f.__name__ else w[0]
            inputs = [T(x, dtype), T(w, dtype), T((outputs,), dtype)]
            terms = (w[0] // k.get("groups", 1), *w[1:]) if "transpose" in f.__name__ else w
            yield Case(
                f"{f.__name__}_{name}_{d}",
                lambda x, w, b, f=f, k=k: f(x, w, b, **k),
                inputs,
                **transposed_tolerance(dtype, terms) if "transpose" in f.__name__ else tolerance(dtype, w),
            )


def transposed_tolerance(dtype, weight):
    return tolerance(dtype, (1, *weight))


# Columns of x, kernel, stride, padding, dilation: rows around vectors' widths and longer than a buffer.
ROWS = [(7, 3, 1, 1, 1), (15, 5, 1, 2, 1), (16, 3, 2, 1, 1), (17, 3, 2, 0, 1), (33, 3, 2, 1, 1), (34, 7, 2, 3, 1)]
ROWS += [(40, 3, 3, 1, 2), (5, 9, 1, 4, 1), (3, 3, 1, 6, 4), (600, 3, 1, 1, 1), (600, 5, 2, 2, 1), (40, 70, 1, 40, 1)]


def depthwise_rows(x, w):
    # oneDNN is off: on processors with AVX512-FP16 it generates code for the last row in F16 without end.
    with torch.backends.mkldnn.flags(enabled=False):
        return tuple(
            fn.conv2d(x[..., :n], w[..., :k], None, (1, step), (1, pad), (1, apart), 3)
            for n, k, step, pad, apart in ROWS
        )


# Planes with sizes around vector widths and around the number of rows computed at once. Each is a channel: rows,
# columns, stride, padding, for kernels of 3x3 and 5x5.
SMALL = [
    (1, 1, 1, 2),
    (3, 2, 1, 1),
    (2, 3, 2, 1),
    (7, 7, 1, 1),
    (7, 8, 1, 2),
    (9, 9, 2, 2),
    (14, 14, 1, 1),
    (13, 14, 2, 1),
]
SMALL += [(6, 15, 1, 2), (5, 16, 1, 1), (4, 17, 1, 2), (11, 18, 1, 0), (15, 33, 2, 0), (16, 34, 2, 1), (8, 63, 2, 2)]
SMALL += [(10, 64, 1, 2), (17, 65, 2, 2), (5, 112, 1, 1), (6, 7, 1, (2, 0)), (9, 20, 2, (0, 2)), (7, 9, (1, 2), 1)]


class Planes(torch.nn.Module):
    """Depthwise convolutions: several planes with and without a bias; infinite and NaN weights and inputs; tall planes
    that threads share; more outputs than channels; sizes that the kernels of small planes do not support."""

    def forward(self, x, w, b, v):
        made = []
        for i, (rows, columns, stride, padding) in enumerate(SMALL):
            side = w.shape[-1] if min(rows, columns) > 2 else 3
            some = x[:, 2 * (i % 3) :, :rows, :columns]
            n, k = some.shape[1], w[: some.shape[1], :, :side, :side]
            made += [fn.conv2d(some, k, b[:n] if i % 2 else None, stride, padding, 1, n)]
        tall, odd = x[:1, :3, :, :90], v.clone()
        odd[1, 0, 0, 1], odd[4, 0, 2, 2] = INF, NAN
        return (
            *made,
            fn.conv2d(tall.repeat(1, 1, 3, 1), w[:3], None, 1, 1, 1, 3),
            fn.conv2d(x, w.repeat(2, 1, 1, 1), None, 2, 1, 1, x.shape[1]),
            fn.conv2d(x[:, :, :9, :20], odd, b, 1, 0, 1, x.shape[1]),
            fn.conv2d(x[:, :, :9, :20], odd, b, 2, 0, 1, x.shape[1]),
            fn.conv2d(x[:, :, :6, :40], w, b, 1, "same", 1, x.shape[1]),
            fn.conv2d(x[:, :, :6, :40], w, b, 1, 3, 2, x.shape[1]),
            fn.conv2d(x[:, :, :6, :40], w, b, 3, 1, 1, x.shape[1]),
            fn.conv2d(x[:, :, :6, :40], w[:, :, :, 1:], b, 1, 1, 1, x.shape[1]),
            fn.conv2d(x[:0], w, b, 1, 1, 1, x.shape[1]),
        )


def planes():
    spots = torch.zeros(2, 7, 18, 113)
    spots[0, 0, 0, 0], spots[0, 1, 3, 6], spots[1, 2, 6, 0], spots[1, 6, 17, 112] = NAN, INF, NAN, -INF
    beyond = lambda x, w, b, v: Planes()(x + spots, w, b, v)
    for side in (3, 5):
        inputs = [T((2, 7, 18, 113)), T((7, 1, side, side)), T((7,)), T((7, 1, 3, 3))]
        yield Case(f"planes_{side}", Planes(), inputs, **tolerance(F32, (7, 1, side, side)))
        if side == 3:
            yield Case("planes_beyond", beyond, inputs, **tolerance(F32, (7, 1, side, side)))


class Weighted(torch.nn.Module):
    """Constant weights with several readers, which devices may pack once: products that share a weight, views of a
    weight, and a weight whose dimensions a product and a convolution read in different order."""

    def __init__(self, dtype):
        super().__init__()
        g = torch.Generator().manual_seed(5)
        draw = lambda *shape: torch.nn.Parameter((torch.rand(shape, generator=g) * 2 - 1).to(dtype))
        self.wide, self.square = draw(33, 24, 1, 1), draw(24, 24, 1)
        self.tall, self.grouped = draw(530, 2, 3, 3), draw(10, 4, 3, 3)
        self.turned, self.both = draw(24, 6, 3, 4), draw(24, 24, 3, 3)

    def forward(self, x, y):
        return (
            fn.conv2d(x, self.wide),
            fn.conv2d(x[:, :, 1:, 2:], self.wide),
            fn.conv2d(x, self.wide[9:]),
            fn.conv2d(x[:, :10], self.wide.view(2, 33, 12, 1, 1)[1, :, :10]),
            fn.conv1d(y[:, :, 0], self.square),
            fn.conv1d(y[:, :, 0], self.square.mT.reshape(24, 24, 1)),
            self.wide.view(33, 24) @ x.flatten(2),
            self.square @ y[0].flatten(1)[:, None],
            fn.conv2d(x[:, :2], self.tall),
            fn.conv2d(x[:, :4], self.grouped, padding=1),
            fn.conv2d(x[:, :8], self.grouped, groups=2),
            fn.conv2d(x[:, :20], self.grouped, groups=5, stride=2),
            fn.conv_transpose2d(x, self.turned),
            fn.conv_transpose2d(x, self.turned, stride=2, padding=1, output_padding=1),
            fn.conv_transpose2d(x, self.turned, stride=(2, 3), groups=3),
            fn.conv_transpose2d(x, self.turned, stride=(5, 4), padding=(1, 2)),
            fn.conv_transpose2d(x, self.turned, stride=2, dilation=(2, 3)),
            fn.conv2d(x[:, :6], self.turned),
            fn.conv2d(x, self.both),
            fn.conv_transpose2d(x, self.both),
        )


class Tiled(torch.nn.Module):
    """Constant weights with at least 64 channels, which the Winograd kernels run (conv_accepts_winograd in ops/conv.c),
    and convolutions of similar sizes that they do not. Infinity and NaN must stay in their outputs."""

    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(9)
        draw = lambda *shape: torch.nn.Parameter(torch.rand(shape, generator=g) * 4 - 2)
        self.wide, self.odd, self.grouped = draw(33, 64, 3, 3), draw(18, 67, 3, 3), draw(34, 65, 3, 3)
        self.bias, self.few = draw(33), draw(5, 64, 3, 3)
        spots = torch.zeros(1, 64, 9, 18)
        spots[0, 7, 4, 5], spots[0, 9, 8, 17], spots[0, 60, 0, 10] = INF, NAN, -INF
        self.register_buffer("spots", spots)

    def forward(self, x, y):
        some = x[:, :64]
        return (
            fn.conv2d(some, self.wide, self.bias, padding=1),
            fn.conv2d(some, self.wide),
            torch.relu(fn.conv2d(some, self.wide, self.bias, padding="same") + x[:, :33]),
            fn.conv2d(some[:, :, :5, 3:10], self.wide, padding=(0, 2)),
            fn.conv2d(some[:1, :, :1, :1], self.wide, padding=1),
            fn.conv2d(some[:1, :, 2:4, :3], self.wide, self.bias, padding=(5, 4)),
            fn.conv2d(x[:, :67], self.odd, padding=(2, 0)),
            fn.conv2d(x, self.grouped, self.bias.repeat(2)[:34], padding=1, groups=2),
            fn.conv2d(some + self.spots, self.wide, padding=1),
            fn.conv2d(some, self.few, padding=1),
            fn.conv2d(some, self.wide, stride=2, padding=1),
            fn.conv2d(some, self.wide, dilation=2, padding=2),
            fn.conv_transpose2d(some[:, :33], self.wide),
            fn.conv2d(y, self.wide, self.bias, padding=1),
            fn.conv2d(y[0], self.wide),
            fn.conv2d(y[:0], self.wide),
        )


class Followed(torch.nn.Module):
    """Convolutions with constant weights. After each come steps that the CPU backend fuses into the kernel's stores
    (backend/cpu/epilogue.c) or runs as a separate op, for each of its convolution kernels."""

    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(11)
        draw = lambda *shape: torch.nn.Parameter(torch.rand(shape, generator=g) * 4 - 2)
        self.point, self.window, self.tiles = draw(64, 64, 1, 1), draw(64, 64, 3, 3), draw(64, 64, 3, 3)
        self.planes, self.grouped, self.few = draw(64, 1, 3, 3), draw(64, 32, 1, 1), draw(5, 64, 1, 1)
        self.bias, self.line = draw(64), draw(64, 64, 1, 3)

    def convolutions(self):
        return (
            lambda x: fn.conv2d(x, self.point, self.bias),
            lambda x: fn.conv2d(x, self.grouped, groups=2),
            lambda x: fn.conv2d(x, self.few),
            lambda x: fn.conv2d(x[:, :, :5, :7], self.point),
            lambda x: fn.conv2d(x, self.point, stride=2),
            lambda x: fn.conv2d(x, self.window, self.bias, stride=2, padding=1),
            lambda x: fn.conv2d(x, self.tiles, self.bias, padding=1),
            lambda x: fn.conv2d(x[:, :, :1], self.tiles, padding=1),
            lambda x: fn.conv2d(x[:, :, :2], self.tiles, padding=1),
            lambda x: fn.conv2d(x, self.line, padding=(0, 1)),
            lambda x: fn.conv2d(x, self.planes, self.bias, padding=1, groups=64),
            lambda x: fn.conv2d(x, self.planes, stride=3, groups=64),
            lambda x: fn.conv_transpose2d(x, self.point),
        )

    def forward(self, x, r):
        part = lambda y: r[: y.shape[0], : y.shape[1], : y.shape[2], : y.shape[3]]
        like = lambda y: x if y.shape == x.shape else part(y)
        follow = (
            lambda y: torch.relu(y),
            lambda y: fn.hardtanh(y + like(y), -3, 5),
            lambda y: torch.relu(like(y) + y),
            lambda y: y + like(y),
            lambda y: y.clamp(max=2),
            lambda y: y + y,
            lambda y: torch.relu(y) + like(y),
            lambda y: torch.relu(y + like(y)[:1]),
            lambda y: like(y) - y,
            lambda y: fn.silu(y * 0.125),
            lambda y: fn.silu(y),
            lambda y: fn.hardswish(y) + like(y),
            lambda y: torch.sigmoid(y) * like(y)[:1],
        )
        results = []
        for n, f in enumerate(follow):  # each result has one reader; equal nodes would be merged
            some = [c for i, c in enumerate(self.convolutions()) if i == 0 or (i + n) % 6 == 0]
            results += [f(c(x * (1 + n / 8))) for c in some]
        return results


class Quantised(torch.nn.Module):
    """Convolutions of decoded 8-bit codes and decoded 8-bit weights, which a pass replaces by sums of integers. zero:
    the code of 0, also in the padding around x."""

    def __init__(self, f, table, zero):
        super().__init__()
        g = torch.Generator().manual_seed(7)
        self.f, self.zero, self.named = f, zero, list(table.values())
        for i, (_, w, _) in enumerate(self.named):
            codes = torch.randint(-128, 128, w, generator=g, dtype=I8)
            codes.flatten(1)[:, 0] = -128
            self.register_buffer(f"codes{i}", codes)
            self.register_buffer(f"scales{i}", torch.rand((w[0],) + (1,) * (len(w) - 1), generator=g) / 128 + 1e-3)
            self.register_buffer(f"bias{i}", torch.rand(w[0], generator=g))

    def forward(self, *xs):
        results = []
        for i, (x, (_, _, k)) in enumerate(zip(xs, self.named, strict=True)):
            weight = getattr(self, f"codes{i}").float() * getattr(self, f"scales{i}")
            bias = getattr(self, f"bias{i}") if i % 3 else None
            results.append(self.f((x.float() - self.zero) * 0.0078125, weight, bias, **k))
        return tuple(results)


def quantised():
    tables = ((fn.conv1d, LINES), (fn.conv2d, PLANES), (fn.conv3d, VOLUMES), (fn.linear, PRODUCTS))
    for f, table in (*tables, (padded_conv2d, SIDES)):
        for dtype, low, high, zero in ((I8, -128, 127, 5), (U8, 0, 255, 128), (U8, 0, 255, 0)):
            name = f"quantised_{f.__name__}_{name_of(dtype)}_{zero}"
            inputs = [T(x, dtype, low, high) for x, _, _ in table.values()]
            yield Case(name, Quantised(f, table, zero), inputs, rtol=ulps(F32, 8), atol=2 * products(F32, 301))


def padded_conv2d(x, weight, bias, sides, **options):
    """A convolution whose padding differs on both sides."""
    return fn.conv2d(fn.pad(x, sides), weight, bias, **options)


class Sides(torch.nn.Module):
    def __init__(self):
        super().__init__()
        g = torch.Generator().manual_seed(8)
        for i, (_, w, _) in enumerate(SIDES.values()):
            self.register_buffer(f"weight{i}", torch.randn(w, generator=g))

    def forward(self, *xs):
        rows = zip(xs, SIDES.values(), strict=True)
        return tuple(padded_conv2d(x, getattr(self, f"weight{i}"), None, **k) for i, (x, (_, _, k)) in enumerate(rows))


def integers(x, w, b, x3, w3):
    """Integer convolutions: exact, with the dtype's overflow."""
    return fn.conv1d(x, w, b, padding=2), fn.conv1d(x * 9, w * 9), fn.conv1d(x3, w3, groups=4, stride=2)


def wide_integers(x, w):
    return (
        fn.conv2d(x, w, stride=2, padding=1),
        fn.conv_transpose2d(x, w, stride=2),
        fn.conv3d(x.unsqueeze(2), w.unsqueeze(2)),
    )


def tiled():
    bound = tolerance(F32, (1, 64, 3, 3))
    yield Case("tiled", Tiled(), [T((2, 130, 9, 18)), T((3, 64, 13, 15))], **bound)
    steps = torch.nn.Sequential(torch.nn.Conv2d(64, 48, 3, padding=1), torch.nn.ReLU())
    larger = bound | {"atol": 3 * bound["atol"]}
    yield Case("followed", Followed(), [T((2, 64, 9, 11)), T((2, 64, 12, 14))], **larger)
    d = torch.export.Dim
    sizes = [{0: d("images"), 2: d("rows"), 3: d("columns")}]
    inputs = [[T((2, 64, 8, 9))], [T((3, 64, 21, 16))]]
    yield Case("tiled_sizes", steps, inputs[0], inputs[1], dynamic_shapes=sizes, **bound)


def cases():
    for dtype in (I8, I32, I64):
        lines = [T((2, 3, 9), dtype), T((5, 3, 3), dtype), T((5,), dtype), T((1, 4, 11), dtype), T((4, 1, 3), dtype)]
        yield Case(f"integers_{name_of(dtype)}", integers, lines)
    yield from quantised()
    yield Case("sides", Sides(), [T(x) for x, _, _ in SIDES.values()], **tolerance(F32, (1, 64, 3, 3)))
    yield Case("integers_planes", wide_integers, [T((2, 4, 7, 6), I64), T((4, 4, 3, 3), I64)])
    no_bias = lambda x, w: (
        fn.conv_transpose2d(x, w),
        fn.conv_transpose2d(x[0], w, stride=2),
        fn.conv_transpose2d(x[:0], w),
    )
    yield Case("transpose_forms", no_bias, [T((2, 3, 4, 5)), T((3, 4, 3, 3))], **tolerance(F32, (4, 3, 3, 3)))
    unbatched = lambda x, w: (
        fn.conv3d(x, w, stride=2),
        fn.conv3d(x[None][:0], w),
        fn.conv1d(x[:, 0, 0], w[:, :, 0, 0]),
    )
    yield Case("volume_forms", unbatched, [T((4, 4, 5, 6)), T((3, 4, 2, 2, 2))], **tolerance(F32, (3, 4, 2, 2, 2)))
    # Volumes that OpenCL computes in several ranges of slices.
    slices = lambda x, w, v: (
        fn.conv3d(x, w, padding=1, stride=(2, 1, 1)),
        fn.conv_transpose3d(x, v, stride=(2, 1, 1), padding=1),
    )
    large = [T((1, 8, 40, 64, 64)), T((2, 8, 3, 3, 3)), T((8, 2, 3, 3, 3))]
    yield Case("slices", slices, large, **tolerance(F32, (2, 8, 3, 3, 3)))
    weights = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(3, 4, 3))
    yield Case("weight_norm", weights, [T((2, 3, 8))], rtol=1e-5, atol=1e-5)
    for dtype in FLOATS:
        d = name_of(dtype)
        yield from one_by_one(dtype)
        x, w = T((1, 3, 4, 600), dtype), T((3, 1, 2, 70), dtype)
        yield Case(f"depthwise_rows_{d}", depthwise_rows, [x, w], **tolerance(dtype, (3, 1, 2, 70)))
        yield Case(
            f"no_bias_{d}",
            fn.conv2d,
            [T((1, 3, 7, 7), dtype), T((4, 3, 3, 3), dtype)],
            **tolerance(dtype, (4, 3, 3, 3)),
        )
    for dtype in (F32, F16, BF16, F64):
        shapes = [T((2, 24, 7, 9), dtype), T((2, 24, 9, 8), dtype)]
        yield Case(f"weights_{name_of(dtype)}", Weighted(dtype), shapes, **tolerance(dtype, (1, 24)))
    yield from tiled()
    yield from planes()
    unbatched = [T((3, 7, 8)), T((4, 3, 3, 3)), T((4,))]
    yield Case("unbatched", fn.conv2d, unbatched, **tolerance(F32, (4, 3, 3, 3)))
    yield Case("empty_batch", fn.conv2d, [T((0, 3, 7, 8)), T((4, 3, 3, 3)), T((4,))])
    strided = lambda x, w: fn.conv2d(x.permute(0, 3, 1, 2), w, stride=2)
    yield Case("channels_last", strided, [T((1, 9, 10, 3)), T((4, 3, 3, 3))], **tolerance(F32, (4, 3, 3, 3)))
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 1)
    ).eval()
    yield Case("module", net, [T((2, 3, 10, 9))], rtol=1e-5, atol=1e-5)
    yield Case(
        "module_f16",
        lambda x, w: torch.relu(fn.conv2d(x, w)),
        [T((1, 4, 9, 9), F16), T((8, 4, 3, 3), F16)],
        **tolerance(F16, (8, 4, 3, 3)),
    )
