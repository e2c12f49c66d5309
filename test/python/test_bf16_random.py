"""Random networks of convolutions, in fast and in strict precision, node by node: all variants of a convolution, a pool
and the ops after them read and write values that are stored as BF16 between layers."""

import os
import random
import zlib

import numpy as np
import pytest
import torch
from test_bf16_values import PAIRS, Both, Residual, Scaled, Steps, conv, depthwise
from torch import nn

import clave

pytestmark = pytest.mark.skipif(not PAIRS, reason="no instruction for pairs of BF16")
TURN = os.environ.get("CLAVE_TEST_TURN")  # each commit selects eight others
N = int(os.environ.get("CLAVE_NARROW_GRAPHS", "8" if TURN else "60"))
FIRST = zlib.crc32((TURN or "").encode()) % 100_000
STEPS = (nn.ReLU, nn.ReLU6, nn.SiLU, nn.Hardswish, nn.GELU, nn.Sigmoid, Steps, nn.Identity)


class Joined(Both):
    """Joins both readers' results."""

    def forward(self, x):
        return torch.cat(super().forward(x), 1)


def step(draw):
    return draw.choice(STEPS)()


def convolution(draw, channels, outputs):
    """Returns a convolution of planes that keep their size."""
    kernel, dilation = draw.choice((1, 1, 1, 3, 3, 5)), draw.choice((1, 1, 2))
    groups = draw.choice([g for g in (1, 1, 1, 2, 3, 4) if channels % g == 0 and outputs % g == 0])
    padding = kernel // 2 * dilation
    how = {"padding": padding, "dilation": dilation, "groups": groups, "bias": draw.random() < 0.8}
    return nn.Conv2d(channels, outputs, kernel, **how)


def layer(draw, channels):
    """Returns (a layer, its channels)."""
    outputs = draw.choice((8, 16, 20, 24, 33, 48, 64, 67, 96, 130))
    kinds = {
        "conv": lambda: (nn.Sequential(convolution(draw, channels, outputs), step(draw)), outputs),
        "strided": lambda: (nn.Sequential(conv(channels, outputs, draw.choice((1, 3, 5)), 2), step(draw)), outputs),
        "depthwise": lambda: (
            nn.Sequential(depthwise(channels, draw.choice((3, 5)), draw.choice((1, 2))), step(draw)),
            channels,
        ),
        "residual": lambda: (
            Residual(convolution(draw, channels, outputs), step(draw), convolution(draw, outputs, channels)),
            channels,
        ),
        "scaled": lambda: (nn.Sequential(step(draw), Scaled(channels)), channels),
        "pool": lambda: (draw.choice((nn.MaxPool2d, nn.AvgPool2d))(3, draw.choice((1, 2)), 1), channels),
        "joined": lambda: (Joined(nn.Identity(), convolution(draw, channels, 16), conv(channels, 17)), 33),
        "up": lambda: (nn.Upsample(scale_factor=2), channels),
    }
    return kinds[draw.choice(("conv", "conv", "conv", *kinds))]()


def network(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    first = draw.choice((3, 16, 24, 40))
    layers, channels = [], first
    for _ in range(draw.randint(3, 8)):
        made, channels = layer(draw, channels)
        if not isinstance(made, nn.Upsample) or sum(isinstance(m, nn.Upsample) for m in layers) < 2:
            layers.append(made)  # values of all nodes are kept: planes may not become larger
    layers.append(draw.choice((nn.AdaptiveAvgPool2d(1), conv(channels, 8), nn.Identity())))
    side = [draw.choice((5, 7, 13, 14, 17, 28, 31, 40)) for _ in range(2)]
    return nn.Sequential(*layers).eval(), torch.randn(draw.randint(1, 3), first, *side)


def values_of(program, x, precision):
    session, seen = clave.Session(program, "cpu", precision=precision), {}
    session.observe(lambda node, value: seen.update({node: np.array(value)}))
    out = np.array(session.run(x)[0])
    session.observe(None)
    again = np.array(session.run(x)[0])
    np.testing.assert_array_equal(out, again)
    return [*seen.values(), out]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + N))
def test_as_strict(seed):
    """Each value is within the error of rounding factors and values to 8 bits of mantissa, at any depth."""
    module, x = network(seed)
    program = clave.export(module, (x,), verify=False)
    strict, fast = (values_of(program, x.numpy(), p) for p in ("strict", "fast"))
    assert len(strict) == len(fast)
    for place, (s, f) in enumerate(zip(strict, fast, strict=True)):
        most = np.abs(s).max(initial=1e-3)
        off = np.abs(s - f)
        assert off.max(initial=0) <= 2.0**-4 * most, (place, off.max(), most)
        assert off.mean() <= 2.0**-7 * most, (place, off.mean(), most)
