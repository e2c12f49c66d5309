"""conv1d and conv2d. Tolerance: C/groups * kernel products summed in f32 (describe.products)."""

import torch
import torch.nn.functional as fn

from describe import F16, F32, FLOATS, Case, T, name_of, products, ulps

PLANES = {  # x, weight, arguments
    "plain": ((2, 3, 9, 11), (5, 3, 3, 3), {}), "padded": ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}), "strided": ((1, 3, 12, 9), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
    "dilated": ((1, 2, 13, 12), (3, 2, 3, 3), {"dilation": 2, "padding": 2}), "uneven": ((1, 3, 11, 8), (4, 3, 5, 2), {"stride": (3, 1), "padding": (2, 0), "dilation": (1, 2)}),
    "pointwise": ((2, 7, 5, 6), (9, 7, 1, 1), {}), "grouped": ((2, 6, 7, 7), (4, 3, 3, 3), {"groups": 2}), "depthwise": ((2, 6, 9, 8), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    "depth_multiplier": ((1, 3, 7, 7), (6, 1, 3, 3), {"groups": 3, "stride": 2}), "same": ((1, 3, 8, 7), (4, 3, 3, 3), {"padding": "same"}), "valid": ((1, 3, 8, 7), (4, 3, 3, 3), {"padding": "valid"}),
    "whole": ((2, 3, 5, 4), (6, 3, 5, 4), {}), "one": ((1, 1, 1, 1), (1, 1, 1, 1), {}), "wide": ((1, 16, 14, 14), (33, 16, 3, 3), {"padding": 1}),
}  # fmt: skip
LINES = {
    "plain": ((2, 3, 19), (5, 3, 4), {}), "strided": ((1, 3, 20), (4, 3, 3), {"stride": 2, "padding": 1}), "dilated": ((2, 2, 21), (3, 2, 3), {"dilation": 3}),
    "depthwise": ((2, 6, 15), (6, 1, 5), {"groups": 6, "padding": 2}), "same": ((1, 2, 9), (3, 2, 4), {"padding": "same"}), "causal": ((1, 4, 9), (4, 1, 4), {"groups": 4, "padding": 3}),
}  # fmt: skip


def tolerance(dtype, weight):
    terms = torch.Size(weight[1:]).numel()
    # torch's 16-bit convolutions may sum in blocks that are rounded: one more unit of a sum's size.
    return {"rtol": ulps(dtype, 8), "atol": 2 * products(dtype, terms + 1)}


def cases():
    for dtype in FLOATS:
        d = name_of(dtype)
        for rank, f, table in ((2, fn.conv2d, PLANES), (1, fn.conv1d, LINES)):
            for name, (x, w, k) in table.items():
                inputs = [T(x, dtype), T(w, dtype), T((w[0],), dtype)]
                yield Case(
                    f"conv{rank}d_{name}_{d}", lambda x, w, b, f=f, k=k: f(x, w, b, **k), inputs, **tolerance(dtype, w)
                )
        yield Case(
            f"no_bias_{d}",
            fn.conv2d,
            [T((1, 3, 7, 7), dtype), T((4, 3, 3, 3), dtype)],
            **tolerance(dtype, (4, 3, 3, 3)),
        )
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
