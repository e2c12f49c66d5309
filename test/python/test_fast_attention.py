"""Attention under CLAVE_PRECISION=fast by AMX's tiles on OpenCL: what they multiply is rounded to BF16. Held against
the same in doubles of rounded operands, by AMX where the processor has it and by the same in OpenCL C."""

from pathlib import Path

import numpy as np
import pytest
import torch

import clave

FLAGS = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
WAYS = [w for w in ("amx_bf16", "amx_bf16_local") if w in FLAGS or ("avx512f" in FLAGS and w == "amx_bf16_local")]
WEIGHTS = 2.0**-7  # of what weights and values that are rounded to BF16 may be off by, of the values

# (heads, heads of k, queries, keys, head_dim, v_dim)
SIZES = {
    "whole tiles": (2, 2, 64, 128, 64, 64),
    "odd": (3, 3, 33, 131, 17, 5),
    "grouped": (6, 2, 41, 197, 64, 72),
    "wide": (2, 2, 40, 70, 136, 200),
    "one key": (2, 2, 20, 1, 32, 16),
    "split": (1, 1, 32, 660, 32, 40),
}
pytestmark = pytest.mark.skipif(not WAYS, reason="no instruction for pairs of BF16, and no vectors as wide as theirs")
MASKS = {
    "none": lambda q, k: None,
    "bool": lambda q, k: torch.rand(1, 1, q, k) < 0.7,
    "of keys": lambda q, k: torch.rand(1, 1, 1, k) < 0.7,
    "float": lambda q, k: torch.randn(1, 1, q, k),
    "turned": lambda q, k: torch.randn(1, 1, k, q).transpose(2, 3),
}


class Attention(torch.nn.Module):
    def __init__(self, causal=False):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v, mask=None):
        grouped = q.shape[1] != k.shape[1]
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=grouped
        )


def operands(name, dtype=torch.float32):
    torch.manual_seed(len(name))
    heads, kv, queries, keys, size, v_size = SIZES[name]
    batch = 1 if name == "split" else 2  # one work-item, whose keys two cores share
    shapes = (batch, heads, queries, size), (batch, kv, keys, size), (batch, kv, keys, v_size)
    return [torch.randn(s).to(dtype) for s in shapes]


def run(module, inputs, precision, way, processes):
    env = {"CLAVE_PRECISION": precision, "CLAVE_ASM": way, "CLAVE_SELF_CHECK": "strict"}
    session = processes["cpu"].open(clave.export(module, tuple(inputs), verify=False), **env)
    return [np.asarray(session.run(*inputs)[0], np.float64) for _ in range(2)][1]


def doubles(module, inputs):
    """Of what is multiplied first as BF16, and the sizes of the values."""
    q, k, v, *mask = inputs
    scale = q.shape[-1] ** -0.5
    q = (q.float() * scale).bfloat16().double() / scale
    mask = [m if m.dtype is torch.bool else m.double() for m in mask]
    k, v = k.bfloat16().double(), v.double()
    return module(q, k, v, *mask).numpy(), module(q, k, v.abs(), *mask).numpy()


def check(module, inputs, way, processes, rounded=True):
    fast = run(module, inputs, "fast", way, processes)
    want, size = doubles(module, inputs)
    own = 2.0**-10 if inputs[0].dtype is torch.float16 else 2.0**-8 if inputs[0].dtype is torch.bfloat16 else 0
    assert (np.abs(fast - want) <= (WEIGHTS + own) * size + 1e-6).all()
    if rounded:
        strict = run(module, inputs, "strict", way, processes)
        assert np.abs(fast - strict).max() > 1e-5 * np.abs(strict).max(), "nothing was rounded"


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SIZES)
def test_sizes(name, way, processes):
    check(Attention(), operands(name), way, processes)


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["odd", "whole tiles"])
def test_masks(name, mask, way, processes):
    inputs = operands(name)
    made = MASKS[mask](inputs[0].shape[2], inputs[1].shape[2])
    if made is None:
        check(Attention(causal=True), inputs, way, processes)
        return
    made[..., 0] = True if made.dtype is torch.bool else 0  # a row without any key is NaN
    check(Attention(), [*inputs, made], way, processes)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_operands(dtype, way, processes):
    check(Attention(), operands("odd", dtype), way, processes, rounded=False)


@pytest.mark.parametrize("way", WAYS)
def test_what_bf16_has_no_number_for(way, processes):
    """A value that would become infinite is multiplied as it is, an infinite one is so in its column alone, and a
    score that a mask hides is hidden."""
    inputs = operands("odd")
    inputs[1][0, 0, 7] = inputs[0][0, 0, 3, 2] = 3.4e38
    inputs[2][0, 0, 40, 1] = 3.4e38
    inputs[2][1, 1, 130, 2] = np.inf
    mask = torch.ones(1, 1, 1, 131, dtype=torch.bool)
    mask[..., 7] = False
    fast = run(Attention(), [*inputs, mask], "fast", way, processes)
    inputs[1][0, 0, 7] = 0
    want = Attention()(*(x.double() for x in inputs), mask).numpy()
    np.testing.assert_array_equal(np.isinf(fast), np.isinf(want))
    assert not np.isnan(fast).any()
    rest = np.isfinite(want) & (np.arange(33)[:, None] != 3)
    np.testing.assert_allclose(fast[rest], want[rest], rtol=0.05, atol=0.1)
