"""Integer convolutions and products under OpenCL, as a CPU and as a GPU, have the same bits as on the CPU backend with
each set of instructions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from _export import instructions
from safetensors.torch import load_file, save_file
from test_integer import I8, U8, Layer, codes, dequantised, quantised
from torch import nn

import clave

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from ci import variants

pytestmark = pytest.mark.by_turn(15)
TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"
GPU = ("opencl", {"CLAVE_DEVICE_CLASS": "gpu"}, "dots")
CPU = {level: {"CLAVE_DEVICE_CLASS": level} for level in ("portable", "avx2", "avx512")}


def requantised(y, x):
    return quantised(torch.relu(y), 0.05, 0)


def residual(y, x):
    zero, kind = (7, U8) if x.dtype is torch.uint8 else (-100, I8)
    return quantised(y + dequantised(x[:, :6], 0.05, zero, kind), 0.1, -3, I8)


def columns(y, x):
    """The added tensor repeats from row to row."""
    zero, kind = (7, U8) if x.dtype is torch.uint8 else (-100, I8)
    return quantised(y + dequantised(x[:1, :1, :1], 0.05, zero, kind), 0.1, -3, I8)


class Kinds(nn.Module):
    """Remainders of words, outputs and tiles, groups, strides (some larger than kernels), dilations, volumes, many
    taps. Steps after the sums convert them to codes or any other dtype. If all layers have the same steps, they share
    kernels, whose building takes nearly all of the time."""

    # channels of x, the weight, options
    OF_PLANES = (
        (6, (9, 6, 3, 3), {"padding": 1, "dilation": (1, 2)}),
        (5, (7, 5, 1, 1), {"stride": 2}),
        (6, (12, 2, 5, 5), {"groups": 3, "stride": (2, 3), "padding": 2}),
        (6, (6, 1, 3, 3), {"groups": 6, "padding": 1}),
        (6, (70, 6, 1, 2), {"padding": (0, 1)}),
        (6, (9, 6, 2, 3), {"stride": (5, 7), "padding": (1, 3), "dilation": (3, 2)}),
        (1, (2, 1, 12, 11), {"padding": 6}),
        (6, (8, 6, 3, 3), {"padding": 1}),
        (6, (6, 1, 5, 5), {"groups": 6, "padding": 2}),
        (6, (40, 6, 9, 9), {"padding": 4}),
    )
    AFTER = (
        requantised,
        lambda y, x: y.half(),
        lambda y, x: 3 * y.double(),
        residual,
        lambda y, x: y > 0,
        requantised,
        lambda y, x: y,
        columns,
        columns,
        lambda y, x: quantised(torch.clamp(y, -3, 6), 0.05, 0, I8),
    )
    OF_VOLUMES = (2, (5, 2, 3, 2, 3), {"stride": (2, 1, 1), "padding": (1, 0, 1)})

    def __init__(self, kind, after=AFTER):
        super().__init__()
        self.after = after
        before = lambda x: dequantised(x, 0.05, 7 if kind is U8 else -100, kind)
        conv = {4: nn.functional.conv2d, 5: nn.functional.conv3d}
        layer = lambda shape, o: Layer(lambda x, w, b: conv[len(shape)](x, w, b, **o), *shape, before=before)
        self.layers = nn.ModuleList(layer(*row[1:]) for row in (*self.OF_PLANES, self.OF_VOLUMES))

    def forward(self, x):
        *planes, volumes = self.layers
        volume = x[:, :2, None].expand(-1, -1, 4, -1, -1)
        of_planes = [g(f(x[:, :n]), x) for f, g, (n, *_) in zip(planes, self.after, self.OF_PLANES, strict=True)]
        return *of_planes, volumes(volume.contiguous())


class Products(nn.Module):
    """Remainders of words, columns and tiles of rows; steps fused into the stores, with a step of one operand between,
    and other steps; or only codes, as for planes."""

    ROWS = ((2, 33, 20), (9, 67), (128, 64), (3, 11, 5))
    COLUMNS = (19, 32, 7, 130)
    AFTER = (
        lambda y, x: y,
        lambda y, x: quantised(y, 0.05, 3),
        lambda y, x: quantised(torch.clamp(torch.tanh(y / 8), -0.5, 2), 0.01, -3, I8),
        lambda y, x: torch.relu(y + x),
        lambda y, x: quantised(torch.relu(y + dequantised(quantised(x, 0.1, 9), 0.1, 9)), 0.05, 0),
        lambda y, x: y.half(),
        lambda y, x: 3 * y.double(),
        lambda y, x: y > 0,
        lambda y, x: quantised(y * x, 0.1, 0, I8),
        lambda y, x: torch.clamp(y, -1, 0.5),
    )

    def __init__(self, kind, after=AFTER):
        super().__init__()
        self.kind, self.after = kind, after
        zero = 7 if kind is U8 else -100
        self.layers = nn.ModuleList()
        for i in range(len(after)):  # equal products would be merged
            before = lambda x, i=i: dequantised(x, 0.05, zero + i, kind)
            size = self.COLUMNS[i % 4], self.ROWS[i % 4][-1]
            self.layers.append(Layer(nn.functional.linear, *size, before=before, bias=i % 3 > 0))

    def forward(self, *xs):
        results = []
        for i, f in enumerate(self.layers):
            y = f(xs[i % len(xs)])
            like = torch.linspace(-3, 3, y.numel()).reshape(y.shape) + xs[0].flatten()[0].float()
            results.append(self.after[i](y, like))
        return tuple(results)


# By dtype: rounded to another neighbour, like eager's float sums; codes on the edge between two.
CLOSE = {torch.float16: (2**-10, 3e-4), torch.uint8: (0, 1), torch.int8: (0, 1)}


def run(folder, device, env, variant=None):
    out = folder / "out.safetensors"
    given = ["--inputs", folder / "in.safetensors", "--outputs", out, "--device", device, "--no-fallback"]
    with variants.forced(TOOL, device, [("conv", variant)] if variant else [], os.environ | env) as env:
        subprocess.run([TOOL, "run", folder / "m.clv", *given], env=env, check=True)
    return load_file(out)


def check(module, op, xs, tmp_path, environments):
    """Results equal those of eager mode, and have the same bits on all devices."""
    program = clave.export(module, xs)
    program.save(tmp_path / "m.clv")
    save_file({f"input_{i}": x for i, x in enumerate(xs)}, tmp_path / "in.safetensors")
    want = run(tmp_path, "cpu", {})
    for i, expected in enumerate(module(*xs)):
        got = want[f"output_{i}"]
        assert got.dtype == expected.dtype
        if got.dtype is torch.bool:
            assert (got != expected).sum() <= 1  # one of 30,000 may differ, because sums of floats are not exact
        else:
            rtol, atol = CLOSE.get(got.dtype, (1e-5, 3e-4))
            torch.testing.assert_close(got.double(), expected.double(), rtol=rtol, atol=atol)
    for how in environments:
        got = run(tmp_path, *how)
        for name in want:
            assert torch.equal(got[name], want[name]), (how, name)
    return len(instructions(program, op))


ON_CPU = [("cpu", env, None) for env in CPU.values()]
EVERYWHERE = [*ON_CPU, GPU, ("opencl", {"CLAVE_DEVICE_CLASS": "cpu"}, None)]


def planes(kind):
    return (codes(2, 6, 11, 19, kind=kind),)  # rows longer than a vector


def rows(kind):
    return tuple(codes(*shape, kind=kind) for shape in Products.ROWS)


@pytest.mark.parametrize("kind", [U8, I8])
def test_same_bits(kind, tmp_path):
    module = Kinds(kind, (requantised,) * len(Kinds.OF_PLANES)).eval()
    assert check(module, "ConvInteger", planes(kind), tmp_path, EVERYWHERE) == len(module.layers)


@pytest.mark.parametrize("kind", [U8, I8])
def test_steps(kind, tmp_path):
    module = Kinds(kind).eval()
    assert check(module, "ConvInteger", planes(kind), tmp_path, EVERYWHERE) == len(module.layers)


@pytest.mark.parametrize("kind", [U8, I8])
def test_same_bits_of_products(kind, tmp_path):
    module = Products(kind, (Products.AFTER[1],) * len(Products.COLUMNS)).eval()
    assert check(module, "MatmulInteger", rows(kind), tmp_path, EVERYWHERE) == len(module.layers)


@pytest.mark.parametrize("kind", [U8, I8])
def test_steps_of_products(kind, tmp_path):
    module = Products(kind).eval()
    assert check(module, "MatmulInteger", rows(kind), tmp_path, EVERYWHERE) == len(module.layers)


def test_activations_of_products(tmp_path):
    """Elementary functions differ by device; on one processor they are the same for all instructions."""
    steps = (nn.functional.gelu, nn.functional.silu, torch.exp)
    made = [lambda y, x, f=f: quantised(f(y), 0.05, 3) for f in steps] + [lambda y, x, f=f: f(y) for f in steps]
    module = Products(U8, made).eval()
    assert check(module, "MatmulInteger", rows(U8), tmp_path, ON_CPU) == len(made)
