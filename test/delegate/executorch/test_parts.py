"""Models through ExecuTorch: equal to eager, in one part if clave has all ops, else in as few as possible."""

import importlib.util
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from executorch.exir import to_edge_transform_and_lower
from lowering import assert_same, check, delegates, error_of, load, lower, ops_in
from torch import nn
from torch.export import Dim

import clave
from clave.executorch import ClavePartitioner

sys.path.append(str(ROOT / "examples/mnist"))
import model as mnist

sin = torch.ops.aten.sin


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.norm1, self.norm2 = nn.RMSNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def test_digits_are_one_part_and_what_export_makes_of_them():
    net, x = mnist.load(), torch.rand(3, 1, 28, 28)
    (part,) = check(net, (x,), (torch.rand(3, 1, 28, 28),))
    plain = clave.export(net, (x,)).schema
    assert sorted(ops_in(part)) == sorted(type(i.op).__name__ for c in plain.chains for i in c.instructions)


def test_partitioners_of_other_settings_have_programs_of_their_own():
    """A .pte has two programs whose methods have the same name and similar arguments."""
    chain, x = nn.Sequential(nn.Linear(8, 8), Of(torch.exp), nn.Linear(8, 8)).eval(), torch.rand(2, 8)
    partitioners = [ClavePartitioner(n_threads=1, leave=[torch.ops.aten.exp]), ClavePartitioner()]
    edge = to_edge_transform_and_lower(torch.export.export(chain, (x,)), partitioner=partitioners)
    parts, own = delegates(edge)
    assert own == [] and len({p.processed_bytes.split(b"\n")[1] for p in parts}) == 2
    assert_same(load(edge).execute((x,)), chain(x).detach())


@pytest.mark.by_turn(9)
def test_resnet20_on_photographs(test_data):
    spec = importlib.util.spec_from_file_location("resnet20", ROOT / "examples/resnet/model.py")
    resnet = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resnet)
    folder = test_data / "cifar10"
    images = torch.from_numpy(np.load(folder / "images_200_u8_nhwc.npy"))[:50]
    net, x = resnet.load(folder / "resnet20-12fca82f.th"), resnet.normalise(images)
    with torch.no_grad():
        edge, _ = lower(net, (x,))
        (_part,), own = delegates(edge)
        logits, want = load(edge).execute((x,))[0], net(x)
    torch.testing.assert_close(logits, want, rtol=1e-4, atol=1e-4)
    assert own == [] and logits.argmax(1).equal(want.argmax(1))
    labels = torch.from_numpy(np.load(folder / "labels_200.npy"))[:50]
    assert (logits.argmax(1) == labels).sum() >= 40  # eager: 41


@pytest.mark.by_turn(17)
def test_an_opencl_device():
    if not any(d["kind"] == "opencl" for d in clave.devices()):
        pytest.skip("no OpenCL device")
    check(mnist.load(), (torch.rand(3, 1, 28, 28),), (torch.rand(3, 1, 28, 28),), device="opencl")


@pytest.mark.by_turn(11)
def test_a_transformer_of_any_length():
    """Lengths above the exported maximum fail, and the next call is right. torch's own trace assumes at least 2."""
    lengths = {"x": {1: Dim("n", min=1, max=9)}}
    (part,) = check(Block(), *((torch.randn(2, n, 32),) for n in (5, 9, 1, 2)), dynamic_shapes=lengths, tolerance=1e-4)
    assert {"Attention", "RmsNorm", "LayerNorm"} <= set(ops_in(part))  # as whole ops, without torch's decomposition
    edge, _ = lower(Block(), (torch.randn(2, 5, 32),), lengths)
    method = load(edge)
    with pytest.raises(RuntimeError):
        method.execute((torch.randn(2, 10, 32),))
    assert method.execute((torch.randn(2, 3, 32),))[0].shape == (2, 3, 32)


@pytest.mark.by_turn(11)
def test_results_change_their_sizes():
    net = Of(lambda x, y: (x.flatten(), torch.cat([x, y], 1).sum(0), y.t(), x.shape[0] * y))
    n = Dim("n", min=1, max=8)
    calls = [(torch.rand(n, 4), torch.rand(n, 5)) for n in (3, 8, 1, 4)]
    check(net, *calls, dynamic_shapes={"args": ({0: n}, {0: n})})


@pytest.mark.by_turn(9)
def test_what_is_left_runs_between_parts():
    net, x = Of(lambda x: sin(x + 1) * 2 + sin(x.flip(0))), torch.rand(3, 4)
    check(net, (x,), (-x,), parts=2, own=["aten.sin.default"] * 2, leave=[sin])
    _edge, partitioner = lower(net, (x,), leave=[sin.default])
    assert set(partitioner.refused.values()) == {"the partitioner's `leave` names its op"}
    assert not delegates(lower(Of(lambda x: sin(x)), (x,), leave=[sin])[0])[0]


@pytest.mark.by_turn(17)
def test_sizes_cross_parts():
    def function(x):
        z = torch.cat([x, x])
        return sin(z) + z.shape[0], (z * 2).view(-1), sin(x).reshape(-1) + torch.arange(4 * x.shape[0])

    calls = [(torch.rand(n, 4),) for n in (3, 1, 8)]
    edge, _ = lower(Of(function), calls[0], {"args": ({0: Dim("n", min=1, max=8)},)}, leave=[sin])
    method = load(edge)
    for call in calls:
        assert_same(method.execute(call), function(*call))


@pytest.mark.by_turn(17)
def test_branches_are_left_to_executorch():
    net = Of(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2)
    check(net, (torch.rand(3, 4),), (-torch.rand(3, 4),), parts=2, own=["cond"])


@pytest.mark.by_turn(17)
def test_nine_dimensions():
    """Parts that the verifier refuses are found by trying each: only the op is left, not all."""

    def function(x):
        y = x * 2
        return y.view(1, 1, 1, 1, 1, 1, 1, 2, 3).sum(-1) + 1, y.cos()

    check(Of(function), (torch.rand(2, 3),), parts=2, own=["aten.sum.dim_IntList", "aten.view_copy.default"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.uint8, torch.int16])
@pytest.mark.by_turn(17)
def test_dtypes(dtype):
    check(Of(lambda x: (torch.cat([x, x.flip(0)]), x)), ((torch.rand(3, 4) * 5).to(dtype),))


@pytest.mark.by_turn(17)
def test_memory_formats():
    """An input and a result with dimensions in another memory order."""
    net = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    images = [(torch.rand(2, 3, 9, 8).to(memory_format=torch.channels_last),) for _ in range(2)]
    check(net, *images)


@pytest.mark.by_turn(17)
def test_results_twice_inputs_as_results_and_none():
    x = torch.rand(3, 4)
    check(Of(lambda x: (y := x * 2, y, x, x.view(-1))), (x,))
    check(Of(lambda x, i: x.index_select(0, i) * 2), (x, torch.tensor([2, 0])))
    check(Of(lambda x, y: x * 2 - y), (x, torch.rand(3, 4)), (x, x), (x, x[:]))
    check(Of(lambda x: (torch.nonzero(x), x * 2)), (torch.tensor([[0, 1.0], [2, 0]]),))
    check(Of(lambda x: x.sum(1) + 1), (torch.rand(3, 0),))


@pytest.mark.by_turn(17)
def test_data_errors_have_a_text():
    edge, _ = lower(Of(lambda x, i: x.index_select(0, i) * 2), (torch.rand(3, 4), torch.tensor([2, 0])))
    method = load(edge)
    assert "index 7" in error_of(lambda: method.execute((torch.rand(3, 4), torch.tensor([1, 7]))))
    x = torch.rand(3, 4)
    assert_same(method.execute((x, torch.tensor([1, 1]))), x[[1, 1]] * 2)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_threads": 0}, "n_threads: expected a whole number from 1 to 1024, got 0"),
        ({"n_threads": 1025}, "n_threads: expected a whole number from 1 to 1024, got 1025"),
        ({"n_threads": True}, "n_threads: expected a whole number from 1 to 1024, got True"),
        ({"memory_budget": 2**64}, f"memory_budget: expected a whole number from 1 to {2**64 - 1}, got {2**64}"),
        ({"device": ""}, "device: expected a text.*, got ''"),
        ({"fast": "yes"}, "fast: expected True or False, got 'yes'"),
        ({"quantize": "int9"}, "quantize: expected int2 to int8.*, got 'int9'"),
        ({"leave": ["aten.sin"]}, "leave: expected torch.ops.ns.op or an overload of it, got 'aten.sin'"),
    ],
)
def test_settings_that_cannot_be_meant(settings, said):
    with pytest.raises(clave.Error, match=said):
        ClavePartitioner(**settings)


@pytest.mark.by_turn(17)
def test_ops_that_executorch_decomposes_are_left_as_what_they_become():
    """ExecuTorch decomposes torch's linear to a transposed weight and addmm; the other layers are unchanged."""
    net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Softmax(-1))
    own = ["aten.addmm.default", "aten.permute_copy.default"]
    parts = check(net, (torch.rand(3, 8),), own=own, leave=[torch.ops.aten.linear])
    assert ops_in(parts[0]) == ["Elementwise", "Softmax"]
    _, partitioner = lower(net, (torch.rand(3, 8),), leave=[torch.ops.aten.linear.default])
    assert set(partitioner.refused.values()) == {"the partitioner's `leave` names its op"}
    assert len(partitioner.refused) == 2


@pytest.mark.by_turn(17)
def test_complex_numbers_are_left():
    x = torch.randn(3, 4, dtype=torch.complex64)
    check(Of(lambda x: torch.view_as_real(x) * 2), (x,), own=["aten.view_as_real_copy.default"])


@pytest.mark.by_turn(17)
def test_the_largest_settings_are_taken():
    check(Of(lambda x: x * 2), (torch.rand(3),), device="cpu", n_threads=1024, memory_budget=2**64 - 1)


@pytest.mark.by_turn(17)
def test_settings_reach_the_device():
    edge, _ = lower(Of(lambda x: x * 2), (torch.rand(3),), device="opencl:99")
    assert "unknown device 'opencl:99'" in error_of(lambda: load(edge))
    check(Of(lambda x: x * 2), (torch.rand(3),), device="cpu", n_threads=1, memory_budget=1 << 20, fast=True)
    edge, _ = lower(Of(lambda x: x * 2), (torch.rand(1 << 20),), memory_budget=1000)
    method = load(edge)
    assert "needs 8.0 MB" in error_of(lambda: method.execute((torch.rand(1 << 20),)))


@pytest.mark.by_turn(17)
def test_what_was_exported_keeps_its_constants():
    """A tensor in the code becomes part of the delegate, and stays in the program of torch.export."""
    x, own = torch.rand(3), torch.tensor([1.0, 2.0, 3.0])
    exported = torch.export.export(Of(lambda x: x + torch.tensor([1.0, 2.0, 3.0])), (x,))
    edge = to_edge_transform_and_lower(exported, partitioner=[ClavePartitioner()])
    assert not edge.exported_program().constants
    assert_same(load(edge).execute((x,))[0], x + own)
    assert_same(exported.module()(x), x + own)
