"""Convolutions with float weights under CLAVE_PRECISION=fast: if the processor multiplies pairs of BF16, the CPU
backend rounds both operands. Results are compared with sums in doubles, within the error of f32 sums. Convolutions that
would not be faster, and convolutions under OpenCL, keep strict precision's bits."""

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

# (channels, outputs, kernel, stride, padding, groups), and the sides of the image
ROUNDED = {
    "of one element": ((33, 45, 1, 1, 0, 1), (9, 13)),
    "of one element, wide": ((70, 20, 1, 1, 0, 1), (28, 27)),
    "of many channels": ((601, 20, 1, 1, 0, 1), (5, 9)),
    "of few outputs": ((24, 3, 1, 1, 0, 1), (8, 8)),
    "of one element, small plane": ((48, 100, 1, 1, 0, 1), (7, 7)),
    "of one element, cut": ((700, 420, 1, 1, 0, 1), (10, 11)),
    "of one element, deep": ((520, 528, 1, 1, 0, 1), (8, 9)),
    "of one element and groups": ((40, 36, 1, 1, 0, 2), (8, 9)),
    "of one element, strided": ((37, 64, 1, 2, 0, 1), (15, 16)),
    "of one element, stride of 3": ((36, 40, 1, 3, 0, 1), (10, 13)),
    "of one element, one position": ((96, 40, 1, 1, 0, 1), (1, 1)),
    "strided": ((22, 34, 3, 2, 1, 2), (14, 11)),
    "strided, odd": ((21, 34, 3, 2, 1, 1), (14, 11)),
    "wide rows": ((7, 70, 3, 2, 0, 1), (9, 75)),
    "first of a network": ((3, 16, 7, 2, 3, 1), (40, 37)),
    "small plane": ((64, 32, 3, 1, 1, 1), (7, 7)),
}
STRICT = {
    "of one channel": ((1, 24, 5, 2, 2, 1), (16, 16)),
    "depthwise": ((24, 24, 3, 1, 1, 24), (9, 9)),
    "of few products": ((3, 24, 1, 1, 0, 1), (9, 9)),
}


def rounds_on(device):
    return device == "cpu" and "avx512_bf16" in FLAGS


def to_bf16(x):
    return torch.from_numpy(np.asarray(x.numpy(), ml_dtypes.bfloat16).astype(np.float64))


def made(name, form, sides, **how):
    """Returns (the convolution, x, its program) with a ReLU after it, and an added tensor."""
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
    """Returns results in strict and in fast precision, which must repeat."""
    opened, found, sessions = clave.Device(device), [], []
    monkeypatch.setenv("CLAVE_SELF_CHECK", "strict")
    for precision in ("strict", "fast"):
        monkeypatch.setenv("CLAVE_PRECISION", precision)
        session = clave.Session(program, opened)
        sessions.append(session)  # packed weights live as long as a session has them
        found.append(np.asarray(session.run(*(i.numpy() for i in inputs))[0]))
        session.run(*(i.flip(-1).contiguous().numpy() for i in inputs))
        np.testing.assert_array_equal(session.run(*(i.numpy() for i in inputs))[0], found[-1])
    return found


@pytest.mark.by_turn(13)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded(name, device, monkeypatch):
    """Terms are products of two numbers, each rounded by at most 2^-8 of itself, and summed in f32."""
    form, sides = ROUNDED[name]
    conv, inputs, program = made(name, form, sides)
    strict, fast = runs(program, inputs, device, monkeypatch)
    if not rounds_on(device):
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


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["of one element", "wide rows"])
def test_an_infinite_last_channel(name, device, monkeypatch):
    """An odd last channel has no partner in its pair: infinity times the missing one would be NaN."""
    _, inputs, program = made(name, *ROUNDED[name])
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
    """OpenCL decodes codes to floats."""
    _, inputs, program = made(name, *ROUNDED[name], quantize="int8")
    strict, fast = runs(program, inputs, "opencl", monkeypatch)
    np.testing.assert_array_equal(fast, strict)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", ["of one element", "strided", "small plane"])
def test_no_instruction(name, tmp_path):
    """If the CPU backend uses fewer instructions of a processor, it rounds nothing."""
    form, sides = ROUNDED[name]
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
