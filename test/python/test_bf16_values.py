"""Values between layers under CLAVE_PRECISION=fast: if the CPU backend multiplies pairs of BF16, it stores values as
BF16 if the op that makes them and all ops that read them support this. An observer detects it: the low 16 bits of
floats are 0. Answers are compared with strict precision's."""

import ctypes
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import clave
from clave import _library

ROOT = Path(__file__).resolve().parents[2]
FLAGS = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
PAIRS = "avx512_bf16" in FLAGS
TILES = "amx_bf16" in FLAGS and os.environ.get("CLAVE_DEVICE_CLASS") != "avx512"
pytestmark = pytest.mark.skipif(not PAIRS, reason="no instruction for pairs of BF16")


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return torch.relu(x + self.layers(x))


class Scaled(nn.Module):
    """Multiplies planes by numbers that depend on their means."""

    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, channels, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.scale(x)


class Both(nn.Module):
    """The first layer's value has two readers."""

    def __init__(self, first, one, other):
        super().__init__()
        self.first, self.one, self.other = first, one, other

    def forward(self, x):
        x = self.first(x)
        return self.one(x), self.other(x)


def conv(channels, outputs, kernel=1, stride=1, groups=1, **how):
    return nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, groups=groups, **how)


def depthwise(channels, kernel, stride):
    return conv(channels, channels, kernel, stride, channels)


class Joined(nn.Module):
    """Joins the results of several layers for one value."""

    def __init__(self, *layers, axis=1):
        super().__init__()
        self.layers, self.axis = nn.ModuleList(layers), axis

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], self.axis)


class Steps(nn.Module):
    """An elementwise list with numbers, which reads its value twice."""

    def forward(self, x):
        return x * 0.3 + x * torch.sigmoid(x)


class Mean(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


class Turned(nn.Module):
    """A convolution with a transposed weight, which is planned before the other operand."""

    def __init__(self):
        super().__init__()
        self.first = conv(16, 24)
        self.weight = nn.Parameter(torch.randn(24, 64, 3, 3) / 15)

    def forward(self, x):
        weight = self.weight.transpose(0, 1)
        return nn.functional.conv2d(self.first(x), weight, None, 2, 1)


class Cumsum(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)


# (layers, the shape of x, the number of values between them that are BF16 on the CPU backend)
KEPT = {
    "of one element": ([conv(24, 48), nn.ReLU(), conv(48, 33), nn.ReLU(), conv(33, 20)], (2, 24, 13, 17), 2),
    "of odd channels, few outputs": ([conv(24, 35), conv(35, 37), conv(37, 7)], (2, 24, 11, 31), 2),
    "of many outputs, a half tile": ([conv(24, 68), conv(68, 140), conv(140, 9)], (1, 24, 10, 14), 2),
    "small planes": ([conv(64, 200), conv(200, 130), conv(130, 64)], (1, 64, 7, 7), 2),
    "groups": ([conv(24, 48), conv(48, 64, groups=2), conv(64, 24)], (2, 24, 12, 13), 2),
    "windows": ([conv(16, 48), conv(48, 32, 3, 2), conv(32, 24, 5, 2)], (2, 16, 41, 43), 2),
    "strided, of one element": ([conv(16, 37), conv(37, 64, 1, 2), conv(64, 24)], (2, 16, 27, 29), 2),
    "strides of 3": ([conv(16, 37), conv(37, 96, 1, 3), conv(96, 24)], (1, 16, 31, 37), 2),
    "Winograd": ([conv(16, 64), conv(64, 72, 3), nn.ReLU(), conv(72, 64, 3), conv(64, 8)], (1, 16, 30, 34), 3),
    "residuals": (
        [conv(16, 40), Residual(conv(40, 80), nn.ReLU(), conv(80, 40)), Residual(conv(40, 40, 3)), conv(40, 8)],
        (2, 16, 29, 31),
        4,
    ),
    "residuals of Winograd": ([conv(16, 64), Residual(conv(64, 64, 3)), conv(64, 8)], (1, 16, 30, 34), 2),
    "residuals of small planes": ([conv(64, 200), Residual(conv(200, 200, 3)), conv(200, 8)], (1, 64, 7, 9), 2),
    "SiLU": (
        [conv(16, 40), nn.SiLU(), conv(40, 48, 3, 2), nn.SiLU(), conv(48, 90), nn.SiLU(), conv(90, 8)],
        (1, 16, 40, 42),
        3,
    ),
    "other steps": ([conv(16, 40), nn.GELU(), conv(40, 48), nn.Tanh(), conv(48, 8)], (1, 16, 19, 21), 2),
    "lists of steps": (
        [conv(16, 40), Steps(), conv(40, 48, 3, 2), Steps(), conv(48, 90), Steps(), conv(90, 8)],
        (2, 16, 29, 31),
        3,
    ),
    "lists of steps of Winograd": ([conv(16, 64), conv(64, 72, 3), Steps(), conv(72, 8)], (1, 16, 30, 34), 2),
    "lists of steps, depthwise": ([conv(16, 20), depthwise(20, 3, 1), Steps(), conv(20, 8)], (1, 16, 57, 67), 2),
    "lists of steps, in lanes": ([conv(16, 70), depthwise(70, 3, 1), Steps(), conv(70, 8)], (2, 16, 14, 15), 2),
    "SiLU of Winograd": ([conv(16, 64), conv(64, 72, 3), nn.SiLU(), conv(72, 8)], (1, 16, 30, 34), 2),
    "depthwise": ([conv(16, 40), nn.ReLU6(), depthwise(40, 3, 1), nn.ReLU6(), conv(40, 8)], (2, 16, 57, 59), 2),
    "depthwise, short rows": ([conv(16, 24), depthwise(24, 3, 1), nn.SiLU(), conv(24, 8)], (2, 16, 23, 29), 2),
    "depthwise, strided": ([conv(16, 40), depthwise(40, 3, 2), nn.SiLU(), conv(40, 8)], (1, 16, 131, 133), 2),
    "depthwise, 5": ([conv(16, 20), depthwise(20, 5, 1), nn.SiLU(), conv(20, 8)], (1, 16, 57, 67), 2),
    "depthwise, 5, strided": ([conv(16, 20), depthwise(20, 5, 2), conv(20, 8)], (1, 16, 211, 213), 2),
    "depthwise in lanes": ([conv(16, 70), depthwise(70, 3, 1), nn.SiLU(), conv(70, 8)], (2, 16, 14, 15), 2),
    "depthwise in lanes, 5, strided": ([conv(16, 210), depthwise(210, 5, 2), conv(210, 8)], (1, 16, 17, 19), 2),
    "scaled": ([conv(16, 40), nn.SiLU(), Scaled(40), conv(40, 8)], (2, 16, 13, 15), 2),
    "pool": ([conv(3, 32, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), conv(32, 24)], (1, 3, 70, 74), 2),
    "pool, of other strides": ([conv(16, 32), nn.MaxPool2d((2, 3), (1, 3)), conv(32, 24)], (1, 16, 37, 40), 2),
    "mean": ([conv(16, 32), conv(32, 90), nn.AdaptiveAvgPool2d(1)], (2, 16, 13, 17), 2),
    "patches": ([nn.Conv2d(3, 40, 16, 16), nn.ReLU(), conv(40, 24)], (1, 3, 176, 208), 1),
    "patches that overlap": ([conv(3, 24, 7, 4), conv(24, 20), conv(20, 8)], (2, 3, 67, 71), 2),
    "patches apart": ([conv(5, 33, 4, 6), conv(33, 20), conv(20, 8)], (2, 5, 79, 85), 2),
    "means of planes": ([conv(16, 32), conv(32, 90), Mean((2, 3))], (3, 16, 13, 17), 2),
    "means of rows": ([conv(16, 32), conv(32, 90), Mean(-1)], (2, 16, 13, 37), 2),
    "rows": (
        [
            nn.Conv1d(24, 33, 5, 1, 2),
            nn.MaxPool1d(3, 2, 1),
            nn.Conv1d(33, 48, 3, 2, 1),
            nn.SiLU(),
            nn.Conv1d(48, 9, 1),
        ],
        (3, 24, 501),
        3,
    ),
    "volumes": (
        [
            nn.Conv3d(16, 24, 3, 1, 1),
            nn.MaxPool3d((2, 3, 3), (1, 2, 2), (1, 1, 1), dilation=(2, 1, 1)),
            nn.Conv3d(24, 33, 1, (2, 1, 1)),
            nn.ReLU(),
            nn.Conv3d(33, 9, 1),
        ],
        (2, 16, 7, 15, 17),
        3,
    ),
    "of few products, which round nothing": ([conv(8, 32), conv(32, 90), conv(90, 8)], (2, 8, 13, 17), 1),
    "few elements": ([conv(16, 32), conv(32, 16), conv(16, 8)], (1, 16, 8, 9), 0),
    "a reader of sums": ([conv(24, 48), Both(conv(48, 33), conv(33, 20), Cumsum()), nn.Identity()], (1, 24, 13, 17), 1),
    "an output": ([Both(conv(24, 48), conv(48, 20), nn.Identity())], (1, 24, 13, 17), 0),
}
# Ops that move or normalise the results of layers, and products.
BY_C = {
    "joined": ([conv(16, 32), Joined(conv(32, 24), conv(32, 40, 3)), conv(64, 8)], (2, 16, 13, 17), 4),
    "joined rows": ([conv(16, 32), Joined(conv(32, 24), conv(32, 24, 3), axis=3), conv(24, 8)], (2, 16, 13, 17), 4),
    "joined with an input": ([Joined(nn.Identity(), conv(16, 24)), conv(40, 8)], (2, 16, 13, 17), 2),
    "joined as floats": ([Joined(conv(16, 24), conv(16, 23), axis=1), Cumsum()], (2, 16, 13, 17), 3),
    "joined rows as floats": ([Joined(conv(16, 24), conv(16, 24), axis=-1), Cumsum()], (2, 16, 13, 17), 3),
    "upsampled": (
        [conv(16, 32), nn.Upsample(scale_factor=2), conv(32, 24, 3), nn.Upsample(scale_factor=(3, 1.5)), conv(24, 8)],
        (2, 16, 17, 19),
        4,
    ),
    "upsampled by sums": ([conv(16, 32), nn.Upsample((31, 50), mode="bilinear"), conv(32, 8)], (1, 16, 17, 19), 2),
    "an upsampled input": ([nn.Upsample(scale_factor=2), conv(16, 8)], (2, 16, 17, 19), 1),
    "upsampled as floats": ([conv(16, 32), nn.Upsample(scale_factor=2), Cumsum()], (2, 16, 13, 17), 2),
    "transposed": ([conv(16, 32), nn.ConvTranspose2d(32, 21, 2, 2), conv(21, 8)], (2, 16, 13, 37), 2),
    "transposed, then a step": (
        [conv(16, 32), nn.ConvTranspose2d(32, 21, 2, 2), nn.ReLU(), conv(21, 8)],
        (2, 16, 13, 17),
        1,
    ),
    "a transposed input": ([nn.ConvTranspose2d(32, 21, 2, 2), conv(21, 8)], (2, 32, 13, 17), 1),
    "transposed as floats": ([conv(16, 32), nn.ConvTranspose2d(32, 21, 2, 2), Cumsum()], (2, 16, 13, 37), 1),
    "group norms": (
        [conv(16, 32), nn.GroupNorm(4, 32), nn.SiLU(), conv(32, 21, 3), nn.GroupNorm(3, 21), conv(21, 8)],
        (2, 16, 17, 21),
        4,
    ),
    "group norms, lists of steps": ([conv(16, 32), nn.GroupNorm(4, 32), Steps(), conv(32, 8)], (2, 16, 41, 43), 2),
    "group norms, limits": ([conv(16, 32), nn.GroupNorm(4, 32), nn.ReLU6(), conv(32, 8)], (1, 16, 41, 43), 2),
    "group norms, residuals": (
        [conv(16, 32), Residual(conv(32, 32), nn.GroupNorm(4, 32)), conv(32, 8)],
        (2, 16, 17, 21),
        1,
    ),
    "products": ([nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 40)], (2, 65, 64), 1),
    "products of odd columns": ([nn.Linear(63, 97), nn.ReLU(), nn.Linear(97, 41)], (2, 65, 63), 1),
    "products of normed rows": (
        [nn.LayerNorm(64), nn.Linear(64, 96), Steps(), nn.RMSNorm(96), nn.Linear(96, 40)],
        (2, 33, 64),
        2,
    ),
    "products, residuals": (
        [
            nn.Linear(64, 64),
            Residual(nn.LayerNorm(64), nn.Linear(64, 100), nn.GELU(), nn.Linear(100, 64)),
            nn.Linear(64, 8),
        ],
        (2, 41, 64),
        3,
    ),
    "products, read by others": ([nn.Linear(64, 96), Both(nn.Linear(96, 40), nn.Identity(), Cumsum())], (2, 65, 64), 1),
    "a normed input": ([nn.GroupNorm(4, 16), conv(16, 8)], (2, 16, 17, 21), 1),
    "normed as floats": ([conv(16, 32), nn.GroupNorm(4, 32), nn.SiLU(), Cumsum()], (2, 16, 17, 21), 1),
}
# Cases with a step of AMX tiles; without tiles, the values stay F32.
BY_TILES = {name for name in BY_C if "transposed" in name or "products" in name}
KEPT |= BY_C


def sequence(layers):
    torch.manual_seed(3)
    for layer in layers:
        for m in layer.modules():
            if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)):
                m.reset_parameters()
    return nn.Sequential(*layers).eval()


def run(program, inputs, precision, monkeypatch, see=None, device="cpu"):
    monkeypatch.setenv("CLAVE_PRECISION", precision)
    session = clave.Session(program, device)
    session.observe(see)
    made = [np.array(o) for o in session.run(*inputs)]
    session.observe(None)
    session.run(*(i[..., ::-1].copy() for i in inputs))
    for a, b in zip(made, session.run(*inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    return made


def is_bf16(x):
    return x.dtype == np.float32 and not (np.ascontiguousarray(x).view(np.uint32) & 0xFFFF).any()


def check(program, inputs, count, monkeypatch, bound=2.0**-6):
    """Rounding each value and each weight by 2^-9 of itself changes answers little."""
    kept, all_kept = [], []
    see = lambda node, value: (all_kept.append(node), kept.append(node) if is_bf16(value) else None)
    strict = run(program, inputs, "strict", monkeypatch)
    fast = run(program, inputs, "fast", monkeypatch, see)
    assert len(kept) == count, (kept, all_kept)
    for s, f in zip(strict, fast, strict=True):
        assert s.shape == f.shape and f.dtype == np.float32
        assert np.abs(s - f).max() <= bound * np.abs(s).max()
        assert np.abs(s - f).mean() <= bound / 8 * np.abs(s).max()
        assert np.abs(s - f).max() > 0
    return fast


@pytest.mark.by_turn(9)
@pytest.mark.parametrize("name", KEPT)
def test_kept(name, monkeypatch):
    layers, shape, count = KEPT[name]
    module = sequence(layers)
    x = torch.randn(shape)
    count = 0 if name in BY_TILES and not TILES else count
    fast = check(clave.export(module, (x,), verify=False), (x.numpy(),), count, monkeypatch)
    monkeypatch.setenv("CLAVE_THREADS", "3")
    again = run(clave.export(module, (x,), verify=False), (x.numpy(),), "fast", monkeypatch)
    for one, other in zip(fast, again, strict=True):
        assert np.abs(one - other).max() <= 2.0**-7 * np.abs(one).max()


class OwnBias(nn.Module):
    """A product whose rows are also added to it."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.randn(96, 96) / 10) for _ in range(2))

    def forward(self, x):
        rows = nn.functional.gelu(x @ self.first)
        return torch.addmm(rows, rows, self.second)


def test_rows_that_are_the_bias(monkeypatch):
    """Rows that are a bias stay floats, because sums begin with floats."""
    torch.manual_seed(6)
    x = torch.randn(96, 96)
    program = clave.export(OwnBias().eval(), (x,), verify=False)
    strict, fast = (run(program, (x.numpy(),), how, monkeypatch)[0] for how in ("strict", "fast"))
    assert np.abs(strict - fast).max() <= 2.0**-6 * np.abs(strict).max()


class Tied(nn.Module):
    """A weight that a convolution and a transposed convolution read."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 32, 2, 2) / 11)

    def forward(self, x):
        first = nn.functional.conv2d(x, self.weight, stride=2)
        return first, nn.functional.conv_transpose2d(first, self.weight, stride=2)


def test_tied(monkeypatch):
    """Each op has its own packed weight, whichever is packed first."""
    torch.manual_seed(5)
    x = torch.randn(1, 32, 26, 38)
    program = clave.export(Tied().eval(), (x,), verify=False)
    strict, fast = (run(program, (x.numpy(),), how, monkeypatch) for how in ("strict", "fast"))
    for s, f in zip(strict, fast, strict=True):
        assert 0 < np.abs(s - f).max() <= 2.0**-6 * np.abs(s).max()


@pytest.mark.skipif(not TILES, reason="no instruction for pairs of BF16 by tiles")
def test_gelu():
    """GELU of a product stored as BF16 is a polynomial, for every sign and size."""
    layers = [nn.Linear(64, 64, bias=False), nn.GELU(), nn.Linear(64, 64, bias=False)]
    for layer in layers[::2]:
        layer.weight = nn.Parameter(torch.eye(64))
    x = torch.linspace(-9, 9, 64 * 512).reshape(512, 64)
    x[-1] *= 1e4
    x = x.bfloat16().float()
    program = clave.export(nn.Sequential(*layers).eval(), (x,), verify=False)
    (got,) = clave.Session(program, "cpu", precision="fast").run(x.numpy())
    want = nn.functional.gelu(x.double()).numpy()
    assert is_bf16(np.array(got))
    assert (np.abs(got - want) <= (2.0**-8 + 2.0**-10) * np.abs(want) + 2.0**-29 * np.abs(x.numpy())).all()


@pytest.mark.by_turn(8)
def test_other_devices(monkeypatch):
    """OpenCL devices keep F32, also between ops that never multiply."""
    pools = [nn.MaxPool2d(2, 1), nn.MaxPool2d(2, 1)]
    module = sequence([conv(24, 48), nn.ReLU(), conv(48, 33), depthwise(33, 3, 1), conv(33, 20), *pools])
    x = torch.randn(2, 24, 13, 17)
    program = clave.export(module, (x,), verify=False)
    kept = []
    run(program, (x.numpy(),), "fast", monkeypatch, lambda node, v: kept.append(is_bf16(v)), "opencl")
    assert len(kept) == 6 and not any(kept)


@pytest.mark.by_turn(4)
def test_open_sizes(monkeypatch):
    """Each run decides: a value with few elements at one size is stored as BF16 at another."""
    module = sequence([conv(16, 24), nn.ReLU(), Residual(conv(24, 24)), conv(24, 64, 3, 2), nn.SiLU(), conv(64, 8)])
    x = torch.randn(2, 16, 20, 22)
    sizes = {0: torch.export.Dim("n", min=1, max=8), 2: torch.export.Dim("h", min=6, max=64)}
    program = clave.export(module, (x,), dynamic_shapes={"input": sizes}, verify=False)
    for n, h, count in ((1, 20, 3), (3, 31, 3), (1, 9, 2), (1, 7, 0)):
        x = np.random.default_rng(h).standard_normal((n, 16, h, 22), np.float32)
        check(program, (x,), count, monkeypatch)


@pytest.mark.by_turn(4)
def test_turned_weight(monkeypatch):
    """A copy of the weight is not a constant, so its reader has only F32 kernels."""
    module = sequence([Turned()])
    x = torch.randn(2, 16, 20, 22)
    program = clave.export(module, (x,), verify=False)
    strict = run(program, (x.numpy(),), "strict", monkeypatch)[0]
    fast = run(program, (x.numpy(),), "fast", monkeypatch)[0]
    assert np.abs(strict - fast).max() <= 2.0**-6 * np.abs(strict).max()


@pytest.mark.by_turn(4)
def test_no_numbers(monkeypatch):
    """Infinity and NaN stay after every op that stores BF16."""
    layers = [conv(16, 24), nn.MaxPool2d(3, 2, 1), depthwise(24, 3, 1), conv(24, 24, 3), conv(24, 8)]
    module = sequence(layers)
    x = np.random.default_rng(1).standard_normal((1, 16, 70, 72), np.float32)
    x[0, 3, 20, 21], x[0, 2, 50, 51] = np.nan, np.inf
    program = clave.export(module, (torch.from_numpy(x),), verify=False)
    strict, fast = (run(program, (x,), p, monkeypatch)[0] for p in ("strict", "fast"))
    assert np.isnan(strict).any() and not np.isnan(strict).all()
    np.testing.assert_array_equal(np.isnan(strict), np.isnan(fast))


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("columns", [13, 60])
def test_infinite_weights(columns, monkeypatch):
    """A depthwise convolution with weights of infinity or NaN skips its padding."""
    module = sequence([conv(16, 24), depthwise(24, 3, 1), conv(24, 8)])
    with torch.no_grad():
        module[1].weight[5, 0, 1, 0] = np.inf
        module[2].weight[:, 5] = 0
        module[2].weight[0, 5] = 1
    x = np.random.default_rng(1).standard_normal((1, 16, 57, columns), np.float32)
    seen = {}
    program = clave.export(module, (torch.from_numpy(x),), verify=False)
    for precision in ("strict", "fast"):
        see = lambda node, value, p=precision: seen.setdefault(p, []).append(value.copy())
        run(program, (x,), precision, monkeypatch, see)
    strict, fast = seen["strict"][1], seen["fast"][1]
    assert np.isinf(strict[0, 5]).any() and np.isfinite(strict[0, 5, :, 0]).all()
    np.testing.assert_array_equal(np.isfinite(strict), np.isfinite(fast))


@pytest.mark.by_turn(4)
def test_edited(monkeypatch):
    """An observer replaces a value that is BF16, and later ops read the new numbers."""
    module = sequence([conv(16, 33), conv(33, 8)])
    x = torch.randn(2, 16, 13, 17)
    other = torch.randn(2, 33, 13, 17)
    program = clave.export(module, (x,), verify=False)
    monkeypatch.setenv("CLAVE_PRECISION", "fast")
    session = clave.Session(program, "cpu")

    def put(ctx, node, slot, value, edited):
        if node == 0:
            ctypes.memmove(value.contents.data, other.data_ptr(), other.nbytes)
            edited[0] = True
        return True

    pointers = ctypes.POINTER(_library.Tensor), ctypes.POINTER(ctypes.c_bool)
    edit = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, *pointers)(put)
    library = _library.library()
    library.clave_session_edit.restype = ctypes.c_void_p
    assert not library.clave_session_edit(session._handle.pointer, edit, None)
    made = session.run(x.numpy())[0]
    wanted = module[1](other).detach().numpy()
    assert 0 < np.abs(made - wanted).max() <= 2.0**-6 * np.abs(wanted).max()


@pytest.mark.by_turn(2)
def test_profiles_and_memory(tmp_path, monkeypatch):
    """Shapes show the dtypes of the kernels' operands, and less memory is planned."""
    module = sequence([conv(16, 64), nn.ReLU(), conv(64, 64, 3, 2), nn.ReLU(), conv(64, 8)])
    clave.export(module, (torch.randn(1, 16, 64, 64),), verify=False).save(str(tmp_path / "m.clv"))
    arena, shapes = {}, {}
    for precision in ("strict", "fast"):
        monkeypatch.setenv("CLAVE_PRECISION", precision)
        command = [
            "build/clave",
            "bench",
            tmp_path / "m.clv",
            "--device",
            "cpu",
            "--runs",
            "1",
            "--breakdown",
            "--json",
        ]
        made = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
        arena[precision] = made["plan"]["arena_bytes"]
        shapes[precision] = [n["shapes"] for n in made["breakdown"]["nodes"]]
    assert not any("BF16" in s for s in shapes["strict"])
    assert sorted(s.count("BF16 [1, 64, ") for s in shapes["fast"]) == [1, 1, 2]
    assert arena["fast"] < 0.7 * arena["strict"]


def test_what_is_verified(tmp_path, monkeypatch):
    """Compared runs keep values as the program does: joined nodes have the same bits as separate ones."""
    module = sequence([conv(16, 40), nn.SiLU(), Residual(conv(40, 40, 3)), depthwise(40, 3, 1), nn.SiLU(), conv(40, 8)])
    clave.export(module, (torch.randn(1, 16, 40, 42),), verify=False).save(str(tmp_path / "m.clv"))
    monkeypatch.setenv("CLAVE_PRECISION", "fast")
    command = ["build/clave", "verify", tmp_path / "m.clv", "--run", "--device", "cpu"]
    subprocess.run(command, cwd=ROOT, check=True)


def tuned_answer(folder, program, x, build, rows):
    """Returns the answer in fast precision of a process whose tuning table has these rows of the CPU backend."""
    folder.mkdir(mode=0o700)
    env = os.environ | {"CLAVE_CACHE_DIR": str(folder), "CLAVE_PRECISION": "fast", "CLAVE_DEVICE": "cpu"}
    given, out = folder / "given.json", folder / "out.safetensors"
    given.write_text(json.dumps({"clave_tuning": 1, "device": "any", "rows": rows}))
    command = [build / "clave", "tune", "--import", given, "--force", "--device", "cpu"]
    subprocess.run(command, env=env, check=True, capture_output=True)
    command = [build / "clave", "run", program, "--input", f"x={x}", "--outputs", out]
    subprocess.run(command, env=env, check=True, capture_output=True)
    return out.read_bytes()


@pytest.mark.parametrize("variant", ["winograd 4" if TILES else "direct", "product"])
def test_tuned(build, tmp_path, variant):
    """A row for a convolution's own sizes is also used if its input is stored as BF16. By cost, Winograd's method or,
    with AMX, direct sums would run: the results have other bits."""
    torch.manual_seed(3)
    net, x = nn.Sequential(conv(16, 64), conv(64, 72, 3), conv(72, 8)).eval(), torch.randn(1, 16, 30, 34)
    program, numbers = tmp_path / "m.clv", tmp_path / "x.npy"
    clave.export(net, (x,), input_names=["x"]).save(program)
    np.save(numbers, x.numpy())
    command = [build / "clave", "tune", program, "--device", "cpu", "--dry-run", "--json"]
    env = os.environ | {"CLAVE_PRECISION": "fast", "CLAVE_CACHE_DIR": str(tmp_path / "none")}
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    keys = [
        c["key"] for c in json.loads(done.stdout)["choices"] if c["family"] == "conv" and "kernel=1x3x3" in c["key"]
    ]
    assert len(keys) == 1
    row = {"family": "conv", "key": keys[0], "variant": variant}
    by_cost = tuned_answer(tmp_path / "a", program, numbers, build, [])
    exact = tuned_answer(tmp_path / "b", program, numbers, build, [row])
    assert exact != by_cost
