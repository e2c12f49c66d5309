"""Counts the kernels that a decoder layer launches for one token: their number may not grow."""

import functools
import json
import os
import runpy
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from transformers import LlamaConfig, LlamaForCausalLM

import clave
from clave.llm import use_kv_cache

CONTEXT = 64
N_LAYERS = 4  # layers of tinylm
# The kernels are norm, q k v, rope, attention, product, norm, gate and up, silu, product.
MOST = 9
COUNT = """
import ctypes, sys, numpy, clave
stub = ctypes.CDLL("libOpenCL.so.1")
for path in sys.argv[2:]:
    session = clave.Session(path, device="opencl")
    for at in range(2):  # constants are packed in the first run
        stub.stub_arm(ctypes.c_long(2**40), 0)
        session.run(*eval(sys.argv[1]))
    print(stub.stub_calls())
"""
TOKEN = "(numpy.ones((1, 1), numpy.int64), numpy.array(at))"
IMAGE = "(numpy.ones((1, 8, 9, 9), numpy.float16),)"


def llama(n_layers, dtype=torch.float32, **more):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=n_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
    )
    model = use_kv_cache(LlamaForCausalLM(config).eval().to(dtype), CONTEXT)
    length = torch.export.Dim("length", min=1, max=CONTEXT)
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    return clave.export(model, example, dynamic_shapes=({1: length}, None), **more)


@pytest.fixture(scope="module")
def llamas(tmp_path_factory):
    """Returns (file, number of layers) by name. The first two differ only in the number of layers."""
    of = {
        "f32, 1": (1, {}),
        "f32": (3, {}),
        "f16": (2, {"dtype": torch.float16}),
        "int4:32": (2, {"quantize": "int4:32"}),
    }
    folder = tmp_path_factory.mktemp("llamas")

    @functools.cache
    def made(name):
        n, more = of[name]
        path = folder / f"{list(of).index(name)}.clv"
        llama(n, **more).save(path)
        return path, n

    return made


def launches(paths, stub, device_class, inputs=TOKEN):
    more = {
        "CLAVE_STUB_FAIL_NAME": "clEnqueueNDRangeKernel",
        "CLAVE_DEVICE_CLASS": device_class,
        "CLAVE_SELF_CHECK": "off",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", COUNT, inputs, *map(str, paths)]
    p = subprocess.run(command, env=os.environ | more | stub, capture_output=True, text=True, check=True)
    return [int(n) for n in p.stdout.split()]


@pytest.mark.parametrize(
    ("device_class", "most", "names"),
    [
        ("cpu", MOST, ("f32, 1", "f32")),
        pytest.param("cpu", MOST, ("f32, 1", "f32", "f16"), marks=pytest.mark.by_turn(4)),
        pytest.param("cpu", MOST, ("f32, 1", "f32", "int4:32"), marks=pytest.mark.by_turn(4)),
        pytest.param("gpu", MOST, ("f32, 1", "f32"), marks=pytest.mark.by_turn(11)),
    ],
)
def test_launches_of_a_layer(llamas, stub, device_class, most, names):
    paths, layers = zip(*map(llamas, names), strict=True)
    counts = launches(paths, stub, device_class)
    outside = counts[0] - (counts[1] - counts[0]) // 2
    assert outside > 0
    assert [(c - outside) / n for c, n in zip(counts, layers, strict=True)] == [most] * len(layers)


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_launches_of_a_convolution(stub, tmp_path, device_class):
    """A convolution pads its image, unless work-groups compute it. Its weight is read in place, or was decoded in the
    first run."""
    x = torch.randn(1, 8, 9, 9, dtype=torch.float16)
    clave.export(torch.nn.Conv2d(8, 8, 3, padding=1).half().eval(), (x,)).save(tmp_path / "conv.clv")
    assert launches([tmp_path / "conv.clv"], stub, device_class, IMAGE) == [2 if device_class == "cpu" else 1]


def ops(build, path, trace, device, *inputs):
    """Returns the names of the ops in a run of a program that was prepared for a device."""
    command = [build / "clave", "run", path, *inputs, "--device", device, "--profile", trace]
    subprocess.run(command, check=True, capture_output=True)
    return [e["name"] for e in json.loads(trace.read_text()) if e.get("cat") == "op"]


@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_ops_of_a_layer(llamas, build, tmp_path, device):
    """Counts the ops that remain of a layer when it is prepared for a device."""
    np.save(tmp_path / "tokens.npy", np.ones((1, 1), np.int64))
    inputs = ("--input", f"tokens={tmp_path / 'tokens.npy'}", "--input", "position=5")
    counts = [len(ops(build, llamas(n)[0], tmp_path / "trace.json", device, *inputs)) for n in ("f32, 1", "f32")]
    assert counts[1] - counts[0] == 2 * MOST


class Bottleneck(torch.nn.Module):
    """A block of ResNet-50 whose residual is a convolution."""

    def __init__(self, channels, width, stride):
        super().__init__()
        shapes = [(channels, width, 1, 1, 0), (width, width, 3, stride, 1), (width, 4 * width, 1, 1, 0)]
        shapes.append((channels, 4 * width, 1, stride, 0))
        self.convs = torch.nn.ModuleList(torch.nn.Conv2d(*s, bias=False) for s in shapes)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(s[1]) for s in shapes)

    def forward(self, x):
        layers = [lambda y, c=c, n=n: n(c(y)) for c, n in zip(self.convs, self.norms, strict=True)]
        first, second, third, beside = layers
        return torch.relu(third(torch.relu(second(torch.relu(first(x))))) + beside(x))


@pytest.mark.parametrize("device", ["cpu", pytest.param("opencl", marks=pytest.mark.by_turn(6))])
def test_ops_of_a_residual_block(build, tmp_path, device):
    """Only convolutions remain, and no separate norm, activation or sum."""
    torch.manual_seed(0)
    block, x = Bottleneck(12, 8, 2), torch.randn(1, 12, 9, 9)
    block(torch.randn(4, 12, 9, 9))  # norms that change something
    clave.export(block.eval(), (x,)).save(tmp_path / "m.clv")
    np.save(tmp_path / "x.npy", x.numpy())
    made = ops(build, tmp_path / "m.clv", tmp_path / "trace.json", device, "--input", f"x={tmp_path / 'x.npy'}")
    assert made == ["conv"] * 4


@pytest.mark.by_turn(11)
def test_tinylm_and_gguf(root, build, stub, tmp_path):
    """Tests existing files, and those of llama.cpp. If there are more cores than heads, keys are split."""
    paths = [tmp_path / "tinylm.clv", tmp_path / "gguf.clv"]
    example = root / "examples" / "tinylm"
    subprocess.run(
        [build / "clave", "optimize", example / "tinylm.clv", "-o", paths[0]], check=True, capture_output=True
    )
    runpy.run_path(str(example / "to_gguf.py"))["write"](tmp_path / "m.gguf", "Q8_0")
    clave.from_gguf(tmp_path / "m.gguf").save(paths[1])
    most = MOST + (os.cpu_count() > 2)
    others = 12  # tables of angles, embedding, the last norm and product
    for n in launches(paths, stub, "cpu"):
        assert n <= most * N_LAYERS + others
