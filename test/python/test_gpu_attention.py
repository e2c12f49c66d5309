"""Attention by the units for matrices of GPUs (kernels_cl/attention/attention_mma.cl), which OpenCL C emulates, against
torch in f64; and the layouts of all units."""

import math
import subprocess

import pytest
import torch
from test_gpu_products import BF16, F16, F32, ROOT, UNITS, run
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as attend

import clave

# queries, keys, head_dim, v_dim: partial blocks in each direction; rows of odd sizes are not whole texels.
SIZES = [(70, 45, 64, 64), (20, 100, 80, 33), (129, 33, 128, 128)]
MASKS = ("none", "causal", "bool", "added")


class Attention(nn.Module):
    """Heads of q share those of k and v. The mask hides no row entirely."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, q, k, v):
        heads = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(heads, 1), v.repeat_interleave(heads, 1)
        where = torch.arange(k.shape[2]) * 7 % 5 != torch.arange(q.shape[2])[:, None] % 5
        mask = {"bool": where, "added": where.to(q.dtype) * 2}.get(self.mask)
        return attend(q, k, v, mask, is_causal=self.mask == "causal")


def check(size, dtype, mask, folder, unit, heads=(2, 2), splits=None, **env):
    """Compares with torch in f64. In strict precision, only the result is rounded."""
    torch.manual_seed(0)
    queries, keys, head_dim, v_dim = size
    of = lambda n, rows, width: torch.randn(2, n, rows, width).to(dtype)
    inputs = of(heads[0], queries, head_dim), of(heads[1], keys, head_dim), of(heads[1], keys, v_dim)
    module = Attention(mask)
    program = clave.export(module, inputs, verify=False)
    env = {"CLAVE_ASM": f"emulated_{unit}"} | env
    got, said = run(program, inputs, folder, "mma", env, splits, family="attention")
    assert "does not work" not in said
    fast = env.get("CLAVE_PRECISION") == "fast"  # fast precision rounds the operands and the weights
    want = module(*((x.to(BF16) if fast else x).double() for x in inputs))
    assert torch.allclose(got[0].double(), want, rtol=torch.finfo(dtype).eps, atol=2**-8 if fast else 1e-5)
    return got[0]


@pytest.mark.by_turn(20)
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("size", "mask"), [(SIZES[k % 3], mask) for k, mask in enumerate(MASKS)])
def test_units(size, mask, unit, dtype, tmp_path):
    check(size, dtype, mask, tmp_path, unit)


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("splits", ["1", "2", "4"])
def test_splits_and_shared_heads(splits, tmp_path):
    check((40, 130, 64, 64), F16, "causal", tmp_path, "wmma_gfx12", heads=(6, 2), splits=splits)


def test_rounded_floats(tmp_path):
    """Fast precision rounds f32 to BF16; strict precision does not."""
    size = (33, 40, 64, 64)
    fast = check(size, F32, "none", tmp_path, "mma_sync", CLAVE_PRECISION="fast")
    strict = check(size, F32, "none", tmp_path, "mma_sync")
    assert (fast - strict).abs().max() > 1e-4


@pytest.mark.parametrize("unit", range(1, 9))
def test_layouts(unit, tmp_path):
    """The fragments of all lanes together are the whole block, which RDNA 3 holds twice."""
    source = r"""
#include <stdio.h>
#include "mma_units.h"
int main(void) {
  int a[MMA_M][16] = {{0}}, b[MMA_N][16] = {{0}}, c[MMA_M][MMA_N] = {{0}};
  for (int l = 0; l < MMA_LANES; l++) {
    for (int i = 0; i < A_ITEMS; i++) a[A_ROW(l, i)][A_AT(l, i)]++;
    for (int i = 0; i < B_ITEMS; i++) b[B_COLUMN(l, i)][B_AT(l, i)]++;
    for (int i = 0; i < SUMS; i++) c[SUM_ROW(l, i)][SUM_COLUMN(l, i)]++;
  }
  for (int i = 0; i < MMA_M * 8 * A_PER_WORD; i++) printf("%d", a[i / (8 * A_PER_WORD)][i % (8 * A_PER_WORD)]);
  for (int i = 0; i < MMA_N * 8; i++) printf("%d", b[i / 8][i % 8]);
  putchar('\n');
  for (int i = 0; i < MMA_M * MMA_N; i++) printf("%d", c[i / MMA_N][i % MMA_N]);
  for (int i = 0; i + SUM_RUN <= SUMS; i += SUM_RUN)
    for (int j = 1; j < SUM_RUN; j++)
      if (SUM_ROW(5, i + j) != SUM_ROW(5, i) || SUM_COLUMN(5, i + j) != SUM_COLUMN(5, i) + j) printf("no run");
}
"""
    (tmp_path / "layout.c").write_text(source)
    command = ["cc", f"-DMMA={unit}", f"-I{ROOT / 'kernels_cl/support'}", "-fsanitize=undefined", "layout.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    factors, sums = subprocess.run(tmp_path / "a.out", check=True, capture_output=True, text=True).stdout.split()
    assert set(factors) == ({"2"} if unit == 4 else {"1"}) and set(sums) == {"1"}


def test_infinite_values(tmp_path):
    """A weight is two terms, and an infinite value times either is infinite."""
    q, k = torch.zeros(1, 1, 20, 16), torch.zeros(1, 1, 40, 16)
    v = torch.ones(1, 1, 40, 16)
    v[..., 3, :8] = math.inf
    inputs = [x.to(F16) for x in (q, k, v)]
    program = clave.export(Attention("none"), tuple(inputs), verify=False)
    got, _ = run(program, inputs, tmp_path, "mma", {"CLAVE_ASM": "emulated_mma_sync"}, family="attention")
    assert got[0][..., :8].isinf().all() and (got[0][..., 8:] == 1).all()


def test_huge_scores(tmp_path):
    """Products of BF16 queries and keys may overflow, although the scaled scores do not."""
    q, k, v = torch.zeros(1, 1, 20, 16), torch.zeros(1, 1, 6, 16), torch.randn(1, 1, 6, 16)
    q[..., 0], k[..., 0] = 3e38, 4.0
    inputs = [x.to(BF16) for x in (q, k, v)]
    program = clave.export(Attention("none"), tuple(inputs), verify=False)
    got, _ = run(program, inputs, tmp_path, "mma", {"CLAVE_ASM": "emulated_mma_sync"}, family="attention")
    want = inputs[2].double().mean(2, keepdim=True).expand_as(q)
    assert torch.allclose(got[0].double(), want, rtol=2**-7, atol=1e-5)
