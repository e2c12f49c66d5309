"""ClaveQuantizer on trained networks and real images: as accurate as in f32, integer sums, codes from end to end."""

import importlib
import os
import pathlib
import sys

import numpy as np
import pytest
import torch
from _export import instructions
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import clave
from clave.quantizer import ClaveQuantizer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data").resolve()
needs_data = pytest.mark.skipif(not DATA.exists(), reason="no ../shared/data")
DEVICES = ("cpu", "opencl")


def example(name):
    path = ROOT / "examples" / name / "model.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def quantise(model, calibration, **options):
    """Returns the model as pt2e converts it, for batches of calibration[0]'s shape."""
    exported = torch.export.export(model.eval(), (calibration[0],)).module()
    prepared = prepare_pt2e(exported, ClaveQuantizer(**options))
    for batch in calibration:
        prepared(batch)
    return convert_pt2e(prepared)


def top(f, images, batch):
    with torch.no_grad():
        return np.concatenate([np.asarray(f(x)).argmax(1) for x in images.split(batch)])


def mnist():
    m = example("mnist")
    images, labels = m.dataset()
    return m.load().eval(), images[:200].split(100), images[m.TRAINING :][:1000], labels[m.TRAINING :][:1000], 5


def cifar():
    m, data = example("resnet"), DATA / "cifar10"
    images = m.normalise(torch.from_numpy(np.load(data / "images_200_u8_nhwc.npy")))
    labels = torch.from_numpy(np.load(data / "labels_200.npy"))
    return m.load(data / "resnet20-12fca82f.th"), images[:50].split(25), images, labels, 20


@needs_data
@pytest.mark.by_turn(2)
@pytest.mark.parametrize("data", [mnist, cifar])
def test_right_as_often_as_in_f32(data, monkeypatch):
    monkeypatch.setenv("CLAVE_TEST_DATA", str(DATA))
    model, calibration, images, labels, sums = data()
    batch = len(calibration[0])
    small = quantise(model, calibration)
    program = clave.export(small, (calibration[0],))
    assert len(instructions(program, "ConvInteger", "MatmulInteger")) == sums
    assert not instructions(program, "Conv") and not instructions(program, "Matmul")
    whole, eager = top(model, images, batch), top(small, images, batch)
    right = (whole == labels.numpy()).mean()
    for device in DEVICES:
        ours = top(clave.Session(program, device), images, batch)
        assert (ours == labels.numpy()).mean() >= 0.99 * right
        assert (ours == eager).mean() >= 0.995, device


class Blocks(nn.Module):
    """Layers that the quantizer supports: residual, norms, averages, clamps, padding, slices; and one that it omits."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = nn.Conv2d(8, 24, 1)
        self.head = nn.Linear(24, 40)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = nn.functional.relu6(x + self.deep(x))
        x = nn.functional.pad(x[:, :, ::2, ::2], (1, 1, 0, 0))
        x = nn.functional.avg_pool2d(self.last(x), 2)
        return self.head(x.mean((2, 3)))


def blocks():
    torch.manual_seed(0)
    model = Blocks().eval()
    return model, [torch.randn(8, 3, 12, 12) for _ in range(3)]


def steps_of(program, kind):
    return [s for i in instructions(program, "Elementwise") for s in i.op.steps if s.kind.name == kind]


@pytest.mark.parametrize(("skip", "sums"), [((), 4), (("last",), 3), (("first", "head"), 2)])
def test_what_is_annotated(skip, sums):
    model, calibration = blocks()
    small = quantise(model, calibration, skip=skip)
    program = clave.export(small, (calibration[0],))
    assert len(instructions(program, "ConvInteger", "MatmulInteger")) == sums
    pads = instructions(program, "Pad")  # zeros around codes are the padding of an integer convolution
    assert len(pads) == (skip == ("last",))
    assert all(program.schema.tensors[pad.op.x.idx].dtype.name == "U8" for pad in pads)
    for device in DEVICES:
        with torch.no_grad():
            got, eager, want = (f(calibration[0]) for f in (clave.Session(program, device), small, model))
        torch.testing.assert_close(got, eager, atol=float(eager.abs().max()) / 255, rtol=0)  # a step of the last codes
        assert (got - want).abs().max() < 0.05 * want.abs().max()


def test_a_residual_is_rounded_once():
    model, calibration = blocks()
    program = clave.export(quantise(model, calibration), (calibration[0],))
    # x, after the first relu, relu6, the last convolution, the pooled, the mean, the head
    assert len(steps_of(program, "round")) == 7


def test_without_torchao(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.quantization.pt2e.observer", None)
    monkeypatch.delitem(sys.modules, "clave.quantizer")
    with pytest.raises(ImportError, match=r"clave\.quantizer needs the package torchao: pip install torchao"):
        importlib.import_module("clave.quantizer")
