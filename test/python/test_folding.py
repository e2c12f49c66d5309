"""Passes before lowering that shrink a graph: constants, casts and views folded, sizes known only at run time."""

import math

import pytest
import torch
from test_patterns import F16, HD, INF, D, H, W, export, repeat_kv, rms, run, x
from test_patterns_rope import by_angles
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(15)


def passes(f, args, **parameters):
    module, program = export(f, args, **parameters)
    run(module, program, args)
    ops = [type(i.op).__name__ for c in program.schema.chains for i in c.instructions]
    return program, ops


def test_ops_on_constants_are_done_at_export():
    program, ops = passes(lambda x, w: x * (w.exp() + 1).cumsum(0) + torch.arange(D) // 3, (x(),), w=W)
    assert ops == ["Elementwise", "Elementwise"] and program.passes["constant"] == 2
    program, ops = passes(lambda x: x + torch.ones(3, D).cumsum(0)[1], (x(),))
    assert ops == ["Elementwise"] and not program.schema.constants  # all 2: an immediate


def test_a_constant_whose_reshape_needs_a_copy():
    _, ops = passes(lambda x, w: (w.t().reshape(-1) * 2).exp() + x, (torch.randn(12),), w=torch.randn(3, 4))
    assert ops == ["Elementwise"]


def test_a_number_of_a_dynamic_size_is_no_constant():
    dims = (({0: torch.export.Dim("b", max=9)},),)
    module, program = export(
        lambda x: torch.scalar_tensor(x.shape[0]).sqrt() + x, (torch.randn(3, 2),), dynamic_shapes=dims
    )
    for b in (3, 1, 9):
        run(module, program, (torch.randn(b, 2),))


def test_large_results_of_small_constants_are_not_stored():
    program, ops = passes(lambda i: torch.arange(2000)[:, None] * torch.arange(2000) + i, (torch.tensor(1),))
    assert sum(".folded" in c.name for c in program.schema.constants) == 1
    assert ops.count("Elementwise") == 2


def test_state_and_random_numbers_are_not_constants():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3))

        def forward(self, x):
            y = self.n.exp()
            self.n += 1
            return x * y

    program = clave.export(Counter().eval(), (torch.ones(3),))
    session = clave.Session(program, "cpu")
    assert [session(torch.ones(3))[0].item() for _ in range(2)] == pytest.approx([1, math.e])


def test_casts_that_cancel():
    program, _ = passes(lambda x: x.float().half() + 1, (x(dtype=F16),))
    assert program.passes["cast"] == 1
    program, _ = passes(lambda x: x.half().float() + 1, (x(),))
    assert "cast" not in program.passes
    program, _ = passes(lambda i: i.float().int() + 1, (torch.tensor([2**24 + 1], dtype=torch.int32),))
    assert "cast" not in program.passes


def test_views_of_views_are_one():
    f = lambda x: x.view(2, 5, 4, 4).reshape(10, 16).view(2, 5, 16).transpose(0, 1).permute(1, 0, 2).exp()
    assert passes(f, (x(),))[1] == ["Elementwise"]
    f = lambda x: x.transpose(0, 2).transpose(0, 1).exp()
    assert sorted(passes(f, (x(),))[1]) == ["Elementwise", "Permute"]
    f = lambda x, y: x[:, None].expand(2, 3, 5, D).expand(2, 3, 5, D).unsqueeze(0).squeeze(0) + y
    assert "Reshape" not in passes(lambda x, y: x.unsqueeze(0).squeeze(0) + y, (x(), x()))[1]
    assert passes(f, (x(), x(2, 3, 5, D)))[1].count("Expand") <= 1


def test_a_copy_that_goes_leaves_the_elements_in_their_order():
    w = torch.randn(3, D)
    f = lambda y, w: y + torch.sin(w.t().contiguous().view(-1))  # the sine is a constant, of a view of a copy
    assert passes(f, (torch.randn(3 * D),), w=w)[0].passes["constant"] == 1
    f = lambda x: x.t().contiguous().as_strided((2, 5), (3, 1), 2) * 2
    passes(f, (torch.randn(3, D),))
    f = lambda x, w: x + torch.sin(w.t().contiguous().as_strided((2, 5), (3, 1), 2))
    passes(f, (torch.randn(2, 5),), w=w)


class Block(nn.Module):
    """A decoder layer as separate ops, with grouped heads, for sequences of any length."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(W.clone())
        self.q = nn.Linear(D, H * HD)
        self.kv = nn.Linear(D, 2 * 2 * HD)

    def forward(self, x):
        b, length, _ = x.shape
        h = rms(x, self.weight)
        q = self.q(h).view(b, length, H, HD).transpose(1, 2)
        k, v = self.kv(h).view(b, length, 4, HD).transpose(1, 2).split(2, 1)
        positions = torch.arange(length, device=x.device)
        angles = (positions[:, None] * torch.linspace(0.1, 1, HD // 2))[None]
        q, k = by_angles(q, angles), by_angles(k, angles)
        mask = positions[None, :] <= positions[:, None]
        scores = (q @ repeat_kv(k, 2).transpose(2, 3) * HD**-0.5).masked_fill(~mask, -INF)
        out = torch.softmax(scores, -1) @ repeat_kv(v, 2)
        return out.transpose(1, 2).reshape(b, length, -1)


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
def test_patterns_in_a_graph_of_symbolic_sizes(decomposed):
    dims = ({0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=64)},)
    module, program = export(Block(), (x(2, 5, D),), decomposed, dynamic_shapes=dims)
    assert {k: program.passes.get(k) for k in ("rms_norm", "rope", "attention")} == {
        "rms_norm": 1,
        "rope": 2,
        "attention": 1,
    }
    for shape in ((2, 5, D), (3, 11, D), (1, 2, D)):
        run(module, program, (x(*shape),))
    attention = next(i.op for i in program.schema.chains[0].instructions if type(i.op).__name__ == "Attention")
    heads = program.schema.tensors[attention.k.idx].shape[1]
    assert heads.literal == 2
