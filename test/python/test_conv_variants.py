"""Variants of convolutions under OpenCL that the op cases do not force: their errors, splits of large images, and
infinite and NaN numbers, on both classes of devices."""

import contextlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from torch import nn

import clave

sys.path.append(str(Path(__file__).resolve().parents[2] / "ci"))

import variants
from _as_class import Process

INF, NAN, EPS = float("inf"), float("nan"), 2.0**-23
TILES = ("winograd 2", "winograd 4")


class Forced:
    """Sessions of a device class that force a variant of each convolution, without the self-check that would move the
    op. The kernels of a variant are cached."""

    def __init__(self, build, device_class):
        self.process, self.stack, self.folders = Process(device_class), contextlib.ExitStack(), {}
        self.build, self.env = build, os.environ | {"CLAVE_DEVICE_CLASS": device_class}

    def folder(self, name):
        if name not in self.folders:
            forced = variants.forced(self.build / "clave", "opencl", [("conv", name)], self.env)
            self.folders[name] = self.stack.enter_context(forced)["CLAVE_CACHE_DIR"]
        return self.folders[name]

    def run(self, module, x, *names, **how):
        program, x = clave.export(module, (x,), verify=False, **how), x.numpy()
        env = [{"CLAVE_CACHE_DIR": self.folder(name), "CLAVE_SELF_CHECK": "off"} for name in names]
        return [np.asarray(self.process.open(program, **e).run(x)[0], np.float64) for e in env]

    def close(self):
        self.process.close()
        self.stack.close()


# A driver for CPUs takes many seconds to compile GPU kernels, once for all tests.
GPU = pytest.param("gpu", marks=pytest.mark.by_turn(4, together="variants of convolutions for GPUs"))


@pytest.fixture(scope="module", params=["cpu", GPU])
def forced(request, build, real_opencl):
    f = Forced(build, request.param)
    yield f
    f.close()


def conv(channels, outputs, **more):
    torch.manual_seed(channels)
    made = nn.Conv2d(channels, outputs, 3, **{"padding": 1} | more)
    with torch.no_grad():
        made.weight.normal_()
    return made.eval().requires_grad_(False)


def exactly(module, x):
    return module.double()(x.double()).numpy()


def parts_of_bound(off, exact, products):
    """Returns the error relative to the bound of a direct sum in the op cases (test_cpu_winograd.c)."""
    terms = products + 1
    return np.max(off / (8 * EPS * np.abs(exact) + 3 * EPS * (terms + 4 * np.sqrt(terms))))


@pytest.mark.parametrize("channels", [64, 512])
def test_errors(forced, channels):
    module, x = conv(channels, 16), torch.randn(1, channels, 28, 28)
    results = forced.run(module, x, "direct", *TILES)
    exact = exactly(module, x)
    off = [np.abs(r - exact) for r in results]
    direct, tiles_2, tiles_4 = (np.sqrt(np.mean(e**2) / np.mean(exact**2)) / (EPS / 2) for e in off)
    assert max(parts_of_bound(e, exact, 9 * channels) for e in off) < 1
    assert tiles_2 < direct and tiles_2 < tiles_4 < 2 * direct


def test_parts(forced):
    """Images larger than one pass: rows of tiles, splits of a row, and several images; with an epilogue."""
    module = nn.Sequential(conv(64, 33), nn.ReLU())
    for shape in ((1, 64, 30, 260), (5, 64, 13, 9)):
        x = torch.randn(shape)
        for result in forced.run(module, x, *TILES):
            exact = exactly(module, x)
            assert parts_of_bound(np.abs(result - exact), exact, 9 * 64) < 1
            module.float()


def test_beyond_the_finite(forced):
    """Results are infinite and NaN exactly where direct sums are."""
    module, x = conv(64, 20), torch.randn(2, 64, 11, 10)
    x[0, 5, 4, 5], x[0, 9, 0, 0], x[1, 63, 10, 9] = INF, -INF, NAN
    module.weight[7, 4, 0, 2] = INF
    direct, *tiles = forced.run(module, x, "direct", *TILES)
    assert 0 < np.isfinite(direct).mean() < 1
    for result in tiles:
        np.testing.assert_allclose(result, direct, rtol=1e-4, atol=1e-3)


@pytest.mark.by_turn(5)
@pytest.mark.parametrize("form", ["int8", "int4:16"])
def test_narrow_weights(forced, form):
    """Winograd's method uses the decoded weight, also with infinite and NaN numbers."""
    module, x = conv(64, 20), torch.randn(2, 64, 11, 10)
    x[0, 5, 4, 5], x[1, 63, 10, 9] = INF, NAN
    direct, *tiles = forced.run(module, x, "direct", *TILES, quantize=form)
    assert 0 < np.isfinite(direct).mean() < 1
    for result in tiles:
        np.testing.assert_allclose(result, direct, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("forced", ["cpu"], indirect=True)
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_padding(forced, stride):
    """An infinite weight is not multiplied by the zeros around the image."""
    module, x = conv(5, 5, groups=5, stride=stride), torch.rand(2, 5, 9, 20) + 0.5
    module.weight[1, 0, 0, 1], module.weight[3, 0, 2, 2] = INF, NAN
    (result,) = forced.run(module, x, "depthwise")
    np.testing.assert_allclose(result, module(x).numpy(), rtol=1e-5, atol=1e-5)


class Residual(nn.Module):
    """A convolution whose epilogue adds a tensor."""

    def __init__(self, outputs, how):
        super().__init__()
        self.conv, self.bias = nn.Conv2d(outputs, outputs, **how), nn.Parameter(torch.randn(outputs, 1, 1))

    def forward(self, x):
        y = self.conv(x)
        return torch.relu(y + x[:, :, : y.shape[2], : y.shape[3]] * self.bias)


# Channels, outputs, the image, options.
PLANES = (
    (300, 300, (2, 300, 5, 9), {}),  # blocks of channels; half a tile that begins in the block before
    (70, 9, (1, 70, 4, 5), {"bias": False}),  # fewer positions than a tile
    (16, 24, (2, 16, 23, 37), {}),  # several work-items
    (700, 420, (1, 700, 8, 8), {}),  # its weight is split
)


@pytest.mark.parametrize("forced", ["cpu"], indirect=True)
@pytest.mark.by_turn(4)
@pytest.mark.parametrize("case", PLANES)
def test_planes(forced, case):
    """Sizes that do not fill vectors of positions, with and without an epilogue."""
    channels, outputs, shape, how = case
    torch.manual_seed(channels)
    plain = nn.Conv2d(channels, outputs, kernel_size=1, **how).eval().requires_grad_(False)
    x = torch.randn(shape)
    (result,) = forced.run(plain, x, "planes")
    exact = exactly(plain, x)
    assert parts_of_bound(np.abs(result - exact), exact, channels) < 1
    module = Residual(outputs, {"kernel_size": 1} | how).eval().requires_grad_(False)
    x = torch.randn(shape[0], outputs, *shape[2:])
    (result,) = forced.run(module, x, "planes")
    np.testing.assert_allclose(result, exactly(module, x), rtol=1e-4, atol=1e-4)


# Channels, image and options: with rows narrower and wider than vectors, small planes, and padding on one side.
NARROW = (
    (37, (2, 37, 7, 7), {"kernel_size": 5, "padding": 2}),
    (16, (1, 16, 2, 3), {"kernel_size": 3, "padding": 1, "bias": False}),
    (35, (1, 35, 14, 14), {"kernel_size": 3, "padding": 1}),
    (20, (3, 20, 29, 33), {"kernel_size": 5, "padding": (0, 2), "stride": 2}),
    (48, (1, 48, 60, 18), {"kernel_size": 3, "padding": (2, 0), "stride": 2}),  # split rows
)


@pytest.mark.parametrize("forced", ["cpu"], indirect=True)
@pytest.mark.by_turn(5)
@pytest.mark.parametrize("case", NARROW)
def test_depthwise(forced, case):
    channels, shape, how = case
    torch.manual_seed(channels)
    plain = nn.Conv2d(channels, channels, groups=channels, **how).eval().requires_grad_(False)
    x = torch.randn(shape)
    (result,) = forced.run(plain, x, "depthwise")
    exact = exactly(plain, x)
    assert parts_of_bound(np.abs(result - exact), exact, plain.weight[0].numel()) < 1
    module = Residual(channels, {"groups": channels} | how).eval().requires_grad_(False)
    (result,) = forced.run(module, x.float(), "depthwise")
    np.testing.assert_allclose(result, exactly(module, x), rtol=1e-4, atol=1e-4)


def test_places_beyond_ints(real_opencl):
    """Padding and strides beyond the kernels' integers are refused by name; the CPU backend computes them."""
    module, x = conv(2, 1, stride=(2**30, 1), padding=(2**31 - 1, 0), bias=False), torch.rand(1, 2, 6, 3)
    program = clave.export(module, (x,), verify=False)
    want = torch.zeros(1, 1, 5, 1)
    want[0, 0, 2, 0] = (module.weight[0] * x[0, :, 1:4]).sum()
    torch.testing.assert_close(clave.Session(program, "cpu")(x), want, rtol=1e-5, atol=1e-5)
    with pytest.raises(clave.Error, match=r"with 2\^31 or more positions in a dimension; node 0 \(conv"):
        clave.Session(program, "opencl")(x)
