"""flex_attention of torch.nn.attention: score_mod, block_mask, shared heads, sums, dynamic lengths."""

import pytest
import torch
from _export import instructions
from torch import nn
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import clave

pytestmark = pytest.mark.by_turn(17)

L, OTHER = 13, 21


def tensors(length, n_kv=4, keys=None, batch=2):
    g = torch.Generator().manual_seed(length)
    q = torch.randn(batch, 4, length, 16, generator=g)
    return q, *(torch.randn(batch, n_kv, keys or length, 16, generator=g) for _ in range(2))


class Flex(nn.Module):
    """flex_attention with these arguments; bias is a buffer that score_mod may read."""

    def __init__(self, score_mod=None, mask_mod=None, sizes=None, **more):
        super().__init__()
        self.score_mod, self.mask_mod, self.more = score_mod, mask_mod, more
        self.block_mask = mask_mod and sizes and create_block_mask(mask_mod, None, None, *sizes, device="cpu")
        self.register_buffer("bias", torch.randn(4, 64, generator=torch.Generator().manual_seed(1)))

    def forward(self, q, k, v):
        block_mask, mod = self.block_mask, self.score_mod
        if self.mask_mod and block_mask is None:
            block_mask = create_block_mask(self.mask_mod, None, None, q.shape[2], k.shape[2], device="cpu")
        score_mod = mod and (lambda *place: mod(self.bias, *place))
        return flex_attention(q, k, v, score_mod, block_mask, **self.more)


def relative(bias, x, b, h, i, j):
    return x + (j - i) * 0.1


def alibi(bias, x, b, h, i, j):
    return x + torch.exp2(-(h + 1.0)) * (j - i)


def softcap(bias, x, b, h, i, j):
    return 5 * torch.tanh(x / 5)


def table(bias, x, b, h, i, j):
    return x + bias[h, i - j + 30]


def by_head_and_batch(bias, x, b, h, i, j):
    return torch.where(i >= j, x * bias[h][i] + b, -float("inf"))


def causal(b, h, i, j):
    return i >= j


def windowed(b, h, i, j):
    return (i >= j) & (i - j < 5 + h)


def none_of_the_first(b, h, i, j):
    return j < i - b


def agrees(module, args, others=None, tolerance=None):
    """Compares both backends with eager for these arguments and, exported with a dynamic length, for others."""
    dims = None if others is None else (*({2: Dim("n", min=2, max=64)},) * 3,)
    program = clave.export(module.eval(), args, dynamic_shapes=dims)
    for device in ("cpu", "opencl"):
        session = clave.Session(program, device)
        for given in (args, others or args, args):
            torch.testing.assert_close(session(*given), module(*given), **(tolerance or {}))
    return program


@pytest.mark.parametrize("score_mod", [relative, alibi, softcap, table, by_head_and_batch])
def test_scores_are_changed(score_mod):
    agrees(Flex(score_mod, scale=0.3), tensors(L), tensors(OTHER))


@pytest.mark.parametrize("mask_mod", [windowed, none_of_the_first])
def test_masks_alone_are_attention(mask_mod):
    """Rows that attend to nothing are 0."""
    program = agrees(Flex(mask_mod=mask_mod, sizes=(L, L)), tensors(L))
    assert len(instructions(program, "Attention")) == 1 and not instructions(program, "Softmax")


def test_masks_made_in_the_module_have_any_length():
    program = agrees(Flex(mask_mod=causal), tensors(L), tensors(OTHER))
    assert len(instructions(program, "Attention")) == 1


def test_nothing_but_attention():
    program = agrees(Flex(enable_gqa=True), tensors(L, 2), tensors(OTHER, 2))
    assert [type(i.op).__name__ for i in instructions(program)] == ["Attention"]


def test_heads_that_share_keys():
    agrees(Flex(alibi, none_of_the_first, (L, 7), enable_gqa=True), tensors(L, 2, 7))


@pytest.mark.parametrize("score_mod", [None, relative])
def test_keys_of_one_batch_for_all(score_mod):
    q, k, v = tensors(L)
    module = Flex(score_mod, causal)
    module.block_mask = create_block_mask(causal, len(q), None, L, L, device="cpu")
    agrees(module, (q, k[:1], v[:1]))


def test_sixteen_bits():
    """Scores are computed in f32."""
    args = tuple(x.half() for x in tensors(L))
    agrees(Flex(relative), args, tolerance={"rtol": 2e-3, "atol": 2e-3})


@pytest.mark.parametrize("score_mod", [None, relative])
def test_the_logarithm_of_the_sums(score_mod):
    agrees(Flex(score_mod, none_of_the_first, (L, L), return_lse=True), tensors(L))
