"""Buffers that a model changes: owned by the delegate if nothing else reads them, otherwise by ExecuTorch; KV caches
that two methods share, and weights that all methods share."""

import copy

import pytest
import torch
import torch.nn.functional as F
from lowering import assert_same, check, delegates, load, load_program, lower, program_in
from torch import nn
from torch.export import Dim, export

import clave

sin = torch.ops.aten.sin
CONTEXT, HEADS, D, VOCABULARY = 24, 2, 16, 40


class Counts(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("k", torch.arange(4.0))
        self.register_buffer("c", torch.ones(4), persistent=False)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def added(s, x):
    s.a.add_(x)
    s.c.mul_(s.a)
    return s.a * s.k + s.c


def read_elsewhere(s, x):
    s.a.add_(x)
    return sin(s.a) + s.a * s.k


def made_elsewhere(s, x):
    s.a.copy_(sin(x + 1))
    return s.a * s.k


def read_before_and_after(s, x):
    z = sin(s.a * 2 + x)
    s.a.copy_(z + 1)
    return z * s.a


def returned(s, x):
    s.a.add_(x)
    return s.a


def only_written(s, x):
    s.a.copy_(x)
    return x * 2


@pytest.mark.parametrize(
    ("function", "owned"),
    [
        (added, True),
        (read_elsewhere, False),
        (made_elsewhere, False),
        (read_before_and_after, False),
        (returned, False),
        (only_written, False),
    ],
)
@pytest.mark.by_turn(17)
def test_changed_buffers(function, owned):
    """Each step sees the results of the previous one. Another loaded file starts with the initial state."""
    module = Counts(function)
    edge, _ = lower(copy.deepcopy(module), (torch.rand(4),), leave=[sin])
    parts, _ = delegates(edge)
    assert bool(program_in(parts[0])[1].n_state) == owned
    method = load(edge)
    for _ in range(3):
        x = torch.rand(4)
        assert_same(method.execute((x,)), module(x))
    x = torch.rand(4)
    assert_same(load(edge).execute((x,)), Counts(function)(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.register_buffer("keys", torch.zeros(1, HEADS, CONTEXT, D // HEADS))
        self.register_buffer("values", torch.zeros(1, HEADS, CONTEXT, D // HEADS))

    def forward(self, x, positions):
        n = x.shape[1]
        q, k, v = (y.view(1, n, HEADS, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, positions, k)
        self.values.index_copy_(2, positions, v)
        seen = torch.arange(CONTEXT) <= positions[:, None]
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        return self.out(y.transpose(1, 2).flatten(2))


class Language(nn.Module):
    """Two layers with a KV cache: maps ids (1, n) at positions (n) to logits (1, VOCABULARY) of the last."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, D)
        self.layers = nn.ModuleList(Attention() for _ in range(2))
        self.norm = nn.RMSNorm(D)

    def forward(self, ids, positions):
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer(self.norm(x), positions)
        return x[:, -1] @ self.embedding.weight.T


def two_methods(module):
    n = Dim("n", min=2, max=16)
    prompt = (torch.zeros(1, 4, dtype=torch.long), torch.arange(4))
    shapes = {"ids": {1: n}, "positions": {0: n}}
    return {
        "prefill": export(copy.deepcopy(module), prompt, dynamic_shapes=shapes),
        "decode": export(copy.deepcopy(module), (torch.zeros(1, 1, dtype=torch.long), torch.arange(1))),
    }


def generate(prefill, decode, ids):
    """Returns the ids that follow greedily, and the logits of each step."""
    logits, out = [prefill(torch.tensor([ids]), torch.arange(len(ids)))], []
    for at in range(len(ids), len(ids) + 6):
        out.append(int(logits[-1].argmax()))
        logits.append(decode(torch.tensor([[out[-1]]]), torch.tensor([at])))
    return out, logits


def run(method):
    return lambda *args: method.execute(args)[0]


@torch.no_grad()
def test_a_language_model_of_two_methods():
    module = Language().eval()
    edge, _ = lower(two_methods(module), share_mutable_buffers=True)
    made = [delegates(edge, m) for m in ("prefill", "decode")]
    assert [(len(parts), own) for parts, own in made] == [(1, []), (1, [])]
    (key, program, _), (other, _, _) = (program_in(parts[0]) for parts, _ in made)
    assert key == other and program.n_state == 4  # one program, which has weights and caches once
    loaded, other = load_program(edge), load_program(edge)
    prefill, ids = run(loaded.load_method("prefill")), [3, 1, 4, 1, 5]
    prefill(torch.tensor([ids]), torch.arange(len(ids)))
    at_first = (torch.tensor([[7]]), torch.tensor([0]))  # another loaded file has its own state
    assert_same(run(other.load_method("decode"))(*at_first), copy.deepcopy(module)(*at_first), 1e-4)
    found = generate(prefill, run(loaded.load_method("decode")), ids)
    wanted = generate(module, module, ids)
    assert found[0] == wanted[0]
    assert_same(found[1], wanted[1], 1e-4)


@torch.no_grad()
@pytest.mark.by_turn(17)
def test_methods_have_state_of_their_own_where_nothing_is_said():
    module = Language().eval()
    edge, _ = lower(two_methods(module))
    loaded, ids, at = load_program(edge), torch.tensor([[3, 1, 4]]), torch.arange(3)
    prefill, decode = (run(loaded.load_method(m)) for m in ("prefill", "decode"))
    first = copy.deepcopy(module)
    assert_same(prefill(ids, at), first(ids, at), 1e-4)
    assert_same(decode(ids[:, :1], at[:1]), copy.deepcopy(module)(ids[:, :1], at[:1]), 1e-4)
    size = len(edge.to_executorch().buffer)
    assert size < 1.2 * len(lower(two_methods(module), share_mutable_buffers=True)[0].to_executorch().buffer)


@pytest.mark.by_turn(17)
@pytest.mark.parametrize("shared", (False, True))
def test_a_method_that_is_loaded_again(shared):
    """A method starts with fresh state although another method stays loaded, unless both share the changed buffers."""

    def methods():
        return {name: export(Counts(added), (torch.zeros(4),)) for name in ("one", "two")}

    edge, _ = lower(methods(), share_mutable_buffers=shared)
    program, x, first = load_program(edge)._program, (torch.rand(4),), Counts(added)  # it keeps no methods itself
    begun, then, third = (first(*x) for _ in range(3))
    stays = program.load_method("two")
    one = program.load_method("one")
    assert_same(one(x), begun)
    del one
    again = program.load_method("one")
    assert_same(again(x), then if shared else begun)
    assert_same(stays(x), third if shared else begun)


@pytest.mark.by_turn(17)
def test_buffers_that_are_not_alike_are_not_shared():
    x = (torch.rand(4),)
    other = Counts(added)
    other.k.fill_(2)

    def methods():
        return {"one": export(Counts(added), x), "two": export(other, x)}

    edge, _ = lower(methods(), share_mutable_buffers=True)  # k is never changed, so each method has its own
    assert load_program(edge).load_method("two").execute(x)[0].shape == (4,)
    other.a.fill_(3)
    with pytest.raises(clave.Error, match="buffer 'a' of methods 'one' and 'two' cannot be shared"):
        lower(methods(), share_mutable_buffers=True)


@pytest.mark.by_turn(17)
def test_state_of_several_parts():
    """Buffers of one model in different delegates, with an op of ExecuTorch between them."""

    def function(s, x):
        s.a.add_(x)
        y = sin(s.a + 1)
        s.c.add_(y)
        return s.c * 2

    module = Counts(function)
    parts = check(module, *((torch.rand(4),) for _ in range(3)), parts=2, own=["aten.sin.default"], leave=[sin])
    assert program_in(parts[0])[1].n_state == 2
