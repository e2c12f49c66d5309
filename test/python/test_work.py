"""FLOP and bytes of exported models, as reported by clave bench --breakdown, against torch's own count and counts by
hand. The steps of an epilogue are added to torch's count."""

import json
import os
import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from _export import Fn
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

import clave

pytestmark = pytest.mark.by_turn(6)

PRODUCTS = ("matmul", "grouped_matmul", "conv", "conv_transpose", "attention")
DEVICES = ("cpu", "opencl")


def torch_flops(module, args):
    """Fused attention is not counted on a CPU, so its unfused form is used."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        module(*args)
    return counter.get_total_flops()


class Bench:
    def __init__(self, build, folder):
        self.tool, self.folder = build / "clave", folder

    def nodes(self, program, args, device="cpu", *more, env=None):
        program.save(self.folder / "m.clv")
        command = [self.tool, "bench", self.folder / "m.clv", "--device", device, "--no-fallback"]
        names = [i.name for i in program.schema.methods[0].inputs]
        for i, (name, value) in enumerate(zip(names, args, strict=True)):
            np.save(self.folder / f"{i}.npy", value.numpy())
            command += ["--input", f"{name}={self.folder / f'{i}.npy'}"]
        command += ["--runs", "1", "--warmup", "1", "--breakdown", "--json", *more]
        out = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | (env or {})).stdout
        return json.loads(out)["breakdown"]["nodes"]

    def flops(self, program, args, device="cpu"):
        """Returns the FLOP of products, convolutions and attention."""
        return sum(r["flop"] for r in self.nodes(program, args, device) if r["op"] in PRODUCTS)


@pytest.fixture
def bench(build, tmp_path):
    return Bench(build, tmp_path)


def attend(q, k, v):
    return scaled_dot_product_attention(q, k, v, enable_gqa=q.shape[1] != k.shape[1])


MODULES = {
    "linear": (nn.Linear(7, 5), [(3, 7)]),
    "linear, no bias": (nn.Linear(7, 5, bias=False), [(2, 3, 7)]),
    "matmul": (Fn(torch.matmul), [(4, 1, 3, 7), (5, 7, 2)]),
    "addbmm": (Fn(torch.baddbmm), [(4, 3, 2), (4, 3, 7), (4, 7, 2)]),
    "conv1d": (nn.Conv1d(4, 6, 3, padding=2, dilation=2), [(2, 4, 11)]),
    "conv2d": (nn.Conv2d(6, 9, (3, 5), stride=2, padding=1, groups=3), [(2, 6, 9, 11)]),
    "depthwise": (nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), [(1, 6, 8, 8)]),
    "conv3d": (nn.Conv3d(2, 3, 2), [(1, 2, 4, 5, 6)]),
    "transposed": (nn.ConvTranspose2d(6, 8, 3, stride=2, groups=2), [(2, 6, 5, 7)]),
    "attention": (Fn(attend), [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)]),
    "grouped heads": (Fn(attend), [(2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8)]),
}


@pytest.mark.by_turn(11)
@pytest.mark.parametrize("name", MODULES)
def test_products_are_counted_as_torch_does(bench, name):
    module, shapes = MODULES[name]
    module.eval()
    args = [torch.randn(s) for s in shapes]
    want = torch_flops(module, args)
    assert want > 0
    program = clave.export(module, tuple(args), verify=False)
    assert [bench.flops(program, args, device) for device in DEVICES] == [want, want]


@pytest.mark.by_turn(15)
@pytest.mark.parametrize("name", ["ResNet-18", "MobileNetV2", "ViT-S/16", "BERT-base, 128 tokens", "UNet"])
def test_models_are_counted_as_torch_does(bench, root, monkeypatch, name):
    """Counts agree, except the steps of epilogues, and constants."""
    monkeypatch.syspath_prepend(str(root / "bench"))
    import models

    module, args = models.make(name, small=True)
    want = torch_flops(module, args)
    program = clave.export(module, args, verify=False)
    got = [bench.flops(program, args, device) for device in DEVICES]
    assert got[0] == got[1] and want <= got[0] <= 1.05 * want


def test_an_epilogue_is_its_ops(bench):
    """max(x, 0) after a product is a step on each result, also in a separate kernel."""
    module, x = nn.Sequential(nn.Linear(7, 5), nn.ReLU()).eval(), torch.randn(3, 7)
    (row,) = bench.nodes(clave.export(module, (x,), verify=False), [x])
    assert row["op"] == "matmul" and row["flop"] == 2 * 3 * 5 * 7 + 15
    both = Fn(lambda x: (torch.exp(x) * 2 + x).relu())
    (row,) = bench.nodes(clave.export(both, (x,), verify=False), [x])
    assert row["op"] == "elementwise" and row["flop"] == 4 * 21 and row["bytes"] == 2 * 4 * 21


def test_norms_are_counted_by_hand(bench):
    """A norm counts 5 per element (sum, difference, square, sum, scale), and then weight and bias."""
    x = torch.randn(3, 8)
    (row,) = bench.nodes(clave.export(nn.LayerNorm(8).eval(), (x,), verify=False), [x])
    assert (row["flop"], row["bytes"]) == (7 * 24, 4 * (24 + 8 + 8 + 24))
    (row,) = bench.nodes(clave.export(nn.RMSNorm(8).eval(), (x,), verify=False), [x])
    assert (row["op"], row["flop"]) == ("rms_norm", 4 * 24)


def test_causal_attention_counts_the_keys_that_are_seen(bench):
    q, k = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
    causal = Fn(lambda q, k: scaled_dot_product_attention(q, k, k, is_causal=True))
    for device in DEVICES:
        rows = bench.nodes(clave.export(causal, (q, k), verify=False), [q, k], device)
        assert [r["flop"] for r in rows if r["op"] == "attention"] == [2 * 2 * (1 + 2 + 3 + 4 + 5) * 16]


def test_cached_attention_counts_by_its_position(bench):
    """Position and length are the run's: a query at p attends to p + 1 keys, or to those of its window."""
    from clave.llm import KVCache

    for window, keys in ((None, [8, 9, 10]), (4, [4, 4, 4])):
        q, k = torch.randn(1, 4, 3, 8), torch.randn(1, 2, 3, 8)
        length = torch.export.Dim("length", min=1, max=16)
        cache, at = KVCache(2, 32, 8, window=window), torch.tensor(7)
        shapes = ({2: length}, {2: length}, {2: length}, None)
        program = clave.export(cache, (q[:, :, :2], k[:, :, :2], k[:, :, :2], at), dynamic_shapes=shapes, verify=False)
        for device in DEVICES:
            (row,) = (r for r in bench.nodes(program, [q, k, k, at], device) if r["op"] == "attention_cached")
            read = keys[-1] if window is None else window + 2
            assert row["flop"] == 2 * 4 * sum(keys) * 16
            assert row["bytes"] == 4 * (2 * q.numel() + 2 * k.numel()) + 2 * (2 * 8 * 4) * (read + 3)


def test_experts_count_by_their_rows(bench):
    """Rows after the last group belong to no expert, and an expert without rows is not read."""
    pytest.importorskip("transformers", reason="needs transformers")
    import transformers.integrations.moe  # noqa: F401, registers the op

    f = Fn(lambda a, b, ends: torch.ops.transformers.grouped_mm_fallback(a, b, ends))
    args = torch.randn(10, 16), torch.randn(3, 16, 8), torch.tensor([4, 4, 7], dtype=torch.int32)
    program = clave.export(f, args, verify=False)
    for device in DEVICES:
        (row,) = (r for r in bench.nodes(program, args, device) if r["op"] == "grouped_matmul")
        assert row["flop"] == 2 * 7 * 16 * 8
        assert row["bytes"] == 4 * (10 * 16 + 2 * 16 * 8 + 3 + 10 * 8)


def test_each_execution_counts(bench):
    """A loop's body counts each time, and so do operands whose sizes are known only during the run."""
    weight = torch.randn(6, 6)

    def body(i, x):
        return i + 1, x @ weight

    def loop(n, x):
        return torch._higher_order_ops.while_loop(lambda i, x: i < n, body, (torch.zeros_like(n), x))[1]

    n, x = torch.tensor(5), torch.randn(3, 6)
    program = clave.export(Fn(loop), (n, x), verify=False)
    for device in DEVICES:
        for times in (5, 2):
            rows = bench.nodes(program, [torch.tensor(times), x], device)
            (row,) = (r for r in rows if r["op"] == "matmul")
            assert (row["times"], row["flop"]) == (times, times * 2 * 3 * 6 * 6)


def test_weights_are_read_as_they_are_stored(bench):
    """int8 with an F16 scale for each 32: 34 bytes a group."""
    module, x = nn.Linear(64, 48, bias=False).eval(), torch.randn(1, 64)
    program = clave.export(module, (x,), quantize="int8:32", verify=False)
    for device in DEVICES:
        (row,) = bench.nodes(program, [x], device)
        weight = next(c for c in row["shapes"].split(" -> ")[0].split("], ") if "int8" in c)
        assert weight.startswith("int8:32 [") and row["flop"] == 2 * 64 * 48
        assert row["bytes"] == 4 * 64 + 48 * 2 * 34 + 4 * 48


def test_rows_that_are_rounded_are_multiplied_as_integers(bench):
    """Fast precision is compared with the device's 8-bit peak."""
    module, x = nn.Linear(64, 48, bias=False).eval(), torch.randn(1, 64)
    program = clave.export(module, (x,), quantize="int8:32", verify=False)
    for precision, dtype in (("fast", "I8"), ("strict", "F32")):
        (row,) = bench.nodes(program, [x], env={"CLAVE_PRECISION": precision})
        assert row["dtype"] == dtype and row["compute_ms"] > 0


def test_rows_of_a_table_are_what_is_read(bench):
    module, ids = nn.Embedding(1000, 16).eval(), torch.tensor([3, 999, 3])
    (row,) = bench.nodes(clave.export(module, (ids,), verify=False), [ids])
    assert (row["op"], row["flop"], row["bytes"]) == ("index_select", 0, 2 * 4 * 48 + 8 * 3)


def test_sizes_are_those_of_the_run(bench):
    x = torch.randn(2, 7)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = clave.export(nn.Linear(7, 5).eval(), (x,), dynamic_shapes=({0: batch},), verify=False)
    for n in (1, 9):
        (row,) = bench.nodes(program, [torch.randn(n, 7)])
        assert row["flop"] == 2 * n * 5 * 7 and row["shapes"].endswith(f"F32 [{n}, 5]")


def test_methods_are_apart(bench):
    x = torch.randn(2, 7)
    methods = {"first": (nn.Linear(7, 5).eval(), (x,)), "second": (nn.Linear(7, 3).eval(), (x,))}
    program = clave.export(methods, verify=False)
    for method, columns in (("first", 5), ("second", 3)):
        (row,) = bench.nodes(program, [x], "cpu", "--method", method)
        assert row["flop"] == 2 * 2 * columns * 7
