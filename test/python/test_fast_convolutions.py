"""Convolutions with floats for weights under CLAVE_PRECISION=fast: where the processor multiplies pairs of BF16, both
operands are rounded to it. On both backends they are held against the same in doubles, within what sums in f32 may be
off by, and what is not faster so keeps strict precision's bits."""

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

import clave

FLAGS = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
DEVICES = ["cpu", "opencl"]

# (channels, outputs, kernel, stride, padding, groups), the sides of the image, and what rounds.
ROUNDED = {
    "of one element": ((33, 45, 1, 1, 0, 1), (9, 13), DEVICES),
    "of one element, wide": ((70, 20, 1, 1, 0, 1), (28, 27), DEVICES),
    "of many channels": ((601, 20, 1, 1, 0, 1), (5, 9), DEVICES),
    "of few outputs": ((24, 3, 1, 1, 0, 1), (8, 8), DEVICES),
    "of one element, small plane": ((48, 100, 1, 1, 0, 1), (7, 7), DEVICES),
    "of one element, cut": ((700, 420, 1, 1, 0, 1), (10, 11), DEVICES),
    "of one element, deep": ((520, 528, 1, 1, 0, 1), (8, 9), DEVICES),
    "of one element and groups": ((40, 36, 1, 1, 0, 2), (8, 9), ["cpu"]),
    "of one element, strided": ((37, 64, 1, 2, 0, 1), (15, 16), DEVICES),
    "of one element, stride of 3": ((36, 40, 1, 3, 0, 1), (10, 13), DEVICES),
    "of one element, one position": ((96, 40, 1, 1, 0, 1), (1, 1), DEVICES),
    "strided": ((22, 34, 3, 2, 1, 2), (14, 11), ["cpu"]),
    "of one element, few positions": ((48, 9, 1, 1, 0, 1), (5, 5), ["opencl"]),
    "strided, odd": ((21, 34, 3, 2, 1, 1), (14, 11), DEVICES),
    "wide rows": ((7, 70, 3, 2, 0, 1), (9, 75), DEVICES),
    "first of a network": ((3, 16, 7, 2, 3, 1), (40, 37), DEVICES),
    "small plane": ((64, 32, 3, 1, 1, 1), (7, 7), DEVICES),
}
STRICT = {
    "of one channel": ((1, 24, 5, 2, 2, 1), (16, 16)),
    "depthwise": ((24, 24, 3, 1, 1, 24), (9, 9)),
    "of few products": ((3, 24, 1, 1, 0, 1), (9, 9)),
}


def rounds_on(device, flag="avx512_bf16"):
    """Whether its kernels have the instruction: those of GPUs keep f32, and inline assembly is PoCL's alone."""
    if device == "cpu":
        return flag in FLAGS
    kind = os.environ.get("CLAVE_DEVICE_CLASS") or clave.devices()[0]["type"].lower()
    return flag in FLAGS and kind.startswith("cpu") and on_pocl()


def on_pocl():
    """Whether it is what "opencl" names."""
    return clave.devices()[0]["platform"].startswith("Portable Computing Language")


# Kernels of CPUs that multiply pairs of BF16 in OpenCL C.
AS_IF = pytest.mark.skipif(
    "avx512f" not in FLAGS or not on_pocl(), reason="no instruction for pairs of BF16, and no vectors as wide as theirs"
)


def to_bf16(x):
    return torch.from_numpy(np.asarray(x.numpy(), ml_dtypes.bfloat16).astype(np.float64))


def made(name, form, sides, **how):
    """(the convolution, x, its program): ReLU behind it, and an added tensor."""
    channels, outputs, kernel, stride, padding, groups = form
    torch.manual_seed(len(name))
    conv = torch.nn.Conv2d(channels, outputs, kernel, stride, padding, groups=groups)
    x, added = torch.randn(2, channels, *sides), torch.randn_like(conv(torch.zeros(1, channels, *sides)))

    class Added(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x, added):
            return torch.relu(self.conv(x) + added)

    added = added.repeat(2, 1, 1, 1)
    return conv, (x, added), clave.export(Added().eval(), (x, added), verify=False, **how)


def runs(program, inputs, device, monkeypatch):
    opened = clave.Device(device)

    def open_session(precision):
        monkeypatch.setenv("CLAVE_PRECISION", precision)
        monkeypatch.setenv("CLAVE_SELF_CHECK", "strict")
        return clave.Session(program, opened)

    return both(open_session, inputs)


def by_kernels_of_cpus(program, inputs, way, processes):
    return both(
        lambda p: processes["cpu"].open(program, CLAVE_PRECISION=p, CLAVE_SELF_CHECK="strict", CLAVE_ASM=way), inputs
    )


def both(open_session, inputs):
    """Results in strict and in fast precision, which must repeat."""
    found, sessions = [], []
    for precision in ("strict", "fast"):
        session = open_session(precision)
        sessions.append(session)  # forms of weights live as long as one has them
        found.append(np.asarray(session.run(*(i.numpy() for i in inputs))[0]))
        session.run(*(i.flip(-1).contiguous().numpy() for i in inputs))
        np.testing.assert_array_equal(session.run(*(i.numpy() for i in inputs))[0], found[-1])
    return found


@pytest.mark.by_turn(13)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name, device, monkeypatch):
    """Terms are products of two numbers, each rounded by 2^-8 of itself at most, and summed in f32."""
    form, sides, devices = ROUNDED[name]
    conv, inputs, program = made(name, form, sides)
    strict, fast = runs(program, inputs, device, monkeypatch)
    if device not in devices or not rounds_on(device):
        np.testing.assert_array_equal(fast, strict)
        return
    check(form, conv, inputs, strict, fast)


def check(form, conv, inputs, strict, fast):
    rounded = lambda x, w: torch.nn.functional.conv2d(x, w, None, *form[3:5], groups=form[5])
    x, w, bias = to_bf16(inputs[0]), to_bf16(conv.weight.detach()), conv.bias.detach().double()[:, None, None]
    size = (rounded(x.abs(), w.abs()) + bias.abs() + inputs[1].abs()).numpy()
    want = torch.relu(rounded(x, w) + bias + inputs[1]).numpy()
    k = w[0].numel()
    assert (np.abs(fast - want) <= 2.0**-24 * (k + 8) * size).all()
    assert (np.abs(fast - strict) <= (2.0**-7 + 2.0**-24 * (k + 8)) * size).all()
    assert np.abs(fast - strict).max() > 1e-4 * np.abs(strict).max(), "nothing was rounded"


OF_PLANES = [f"of one element{kind}" for kind in ("", ", wide", ", deep", ", cut")]
OF_IMAGES = ["of one element, small plane", "strided, odd", "wide rows", "first of a network", "small plane"]


@pytest.mark.parametrize("name", OF_PLANES + OF_IMAGES)
@AS_IF
def test_tiles_in_opencl_c(name, processes):
    """As by AMX, on any processor with vectors of 16."""
    form, sides, _ = ROUNDED[name]
    conv, inputs, program = made(name, form, sides)
    strict, fast = by_kernels_of_cpus(program, inputs, "amx_bf16_local", processes)
    check(form, conv, inputs, strict, fast)


# (channels, outputs, kernel and stride) of transposed convolutions whose outputs see one input each, and the image.
SPREAD = {
    "square": ((40, 70, (2, 2)), (9, 21)),
    "rows": ((33, 32, (4, 1)), (7, 20)),
    "of eight places": ((32, 7, (2, 4)), (5, 6)),
}


@pytest.mark.parametrize("name", SPREAD)
@AS_IF
def test_transposed_tiles_in_opencl_c(name, processes):
    """As by AMX, on any processor with vectors of 16: with ReLU behind it."""
    (channels, outputs, kernel), sides = SPREAD[name]
    torch.manual_seed(len(name))
    conv = torch.nn.ConvTranspose2d(channels, outputs, kernel, kernel)
    x = torch.randn(2, channels, *sides)
    program = clave.export(torch.nn.Sequential(conv, torch.nn.ReLU()).eval(), (x,), verify=False)
    strict, fast = by_kernels_of_cpus(program, (x,), "amx_bf16_local", processes)
    rounded = lambda x, w: torch.nn.functional.conv_transpose2d(x, w, None, kernel)
    x, w, bias = to_bf16(x), to_bf16(conv.weight.detach()), conv.bias.detach().double()[:, None, None]
    size = (rounded(x.abs(), w.abs()) + bias.abs()).numpy()
    assert (np.abs(fast - torch.relu(rounded(x, w) + bias).numpy()) <= 2.0**-24 * (channels + 8) * size).all()
    assert np.abs(fast - strict).max() > 1e-4 * np.abs(strict).max(), "nothing was rounded"


@AS_IF
def test_few_positions_without_tiles(processes):
    form, sides, _ = ROUNDED["of one element, few positions"]
    conv, inputs, program = made("few", form, sides)
    strict, fast = by_kernels_of_cpus(program, inputs, "pairs_local", processes)
    check(form, conv, inputs, strict, fast)


@AS_IF
def test_small_planes_by_tiles(processes):
    """What vectors would sum with outputs in lanes, in another order."""
    _, inputs, program = made("tiles", *ROUNDED["of one element, cut"][:2])
    ways = "amx_bf16_local", "pairs_local"
    tiles, pairs = (by_kernels_of_cpus(program, inputs, way, processes)[1] for way in ways)
    assert (tiles != pairs).any()


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["of one element", "wide rows"])
def test_an_infinite_last_channel(name, device, monkeypatch):
    """Of an odd number: its pair has no other, which would make no number of an infinity times nothing."""
    _, inputs, program = made(name, *ROUNDED[name][:2])
    inputs[0][0, -1, 2, 3] = np.inf
    strict, fast = runs(program, inputs, device, monkeypatch)
    assert np.isinf(strict).any() and not np.isnan(strict).any()
    np.testing.assert_array_equal(np.isinf(fast), np.isinf(strict))
    assert not np.isnan(fast).any()


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", STRICT)
def test_not_rounded(name, device, monkeypatch):
    _, inputs, program = made(name, *STRICT[name])
    strict, fast = runs(program, inputs, device, monkeypatch)
    np.testing.assert_array_equal(fast, strict)


@pytest.mark.by_turn(2)
@pytest.mark.parametrize("name", ["of one element", "of one element, small plane"])
def test_codes_are_not_rounded(name, monkeypatch):
    """Under OpenCL, whose self-check could not tell what it should be."""
    _, inputs, program = made(name, *ROUNDED[name][:2], quantize="int8")
    strict, fast = runs(program, inputs, "opencl", monkeypatch)
    np.testing.assert_array_equal(fast, strict)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", ["of one element", "strided", "small plane"])
def test_no_instruction(name, tmp_path):
    """Where the CPU backend uses less of a processor, it rounds nothing."""
    form, sides, _ = ROUNDED[name]
    _, inputs, program = made(name, form, sides)
    program.save(str(tmp_path / "m.clv"))
    np.savez(tmp_path / "x.npz", *(i.numpy() for i in inputs))
    code = (
        "import os, sys, numpy as np, clave\n"
        "x, got = np.load(sys.argv[2]), []\n"
        "for precision in ('strict', 'fast'):\n"
        "    os.environ['CLAVE_PRECISION'] = precision\n"
        "    got.append(np.asarray(clave.Session(sys.argv[1], 'cpu').run(*(x[k] for k in x.files))[0]))\n"
        "assert np.array_equal(*got)\n"
    )
    env = os.environ | {"CLAVE_DEVICE_CLASS": "avx2", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code, tmp_path / "m.clv", tmp_path / "x.npz"], env=env, check=True)
