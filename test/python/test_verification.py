"""clave.export(..., verify=True): programs that compute something other than their module are refused by name."""

import pytest
import torch
from _export import Counter, Fn
from torch import nn
from torch.export import Dim

import clave
from clave.lowering import LOWERINGS
from clave.verification import Reference, _other_number

pytestmark = pytest.mark.by_turn(15)

X = torch.linspace(-2, 3, 12).reshape(3, 4)
NAN = float("nan")
BATCH = Dim("batch", min=1, max=9)


def fn(f):
    return Fn(f).eval()


def plant(monkeypatch, op, wrong):
    """Replaces an op's lowering by wrong(lowering, context, *args), with other arguments or another result."""
    right = LOWERINGS[op]
    monkeypatch.setitem(LOWERINGS, op, lambda c, *args, **kwargs: wrong(right, c, *args, **kwargs))


def test_right_programs_pass():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8)).eval()
    assert clave.export(net, (X,), dynamic_shapes=({0: BATCH},), verify=True).methods
    both = {"count": (Counter(1).eval(), (torch.ones(3),)), "net": torch.export.export(net, (X,))}
    program = clave.export(both, verify=True)
    module = both["count"][0]
    assert module.total.tolist() == [1, 1, 1]  # not the state of the user's module
    assert clave.Session(program, "cpu")(torch.ones(3), method="count").tolist() == [4, 4, 4]


def test_ops_that_may_drop_out(monkeypatch):
    """Ops that draw numbers only in training, which is refused before."""
    qkv = (torch.randn(1, 2, 3, 4),) * 3
    attend = fn(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v))
    clave.export(attend, qkv, verify=True)
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.RReLU(), nn.AlphaDropout(0.5)).eval()
    clave.export(net, (X,), verify=True)
    clave.export(nn.LSTM(4, 3).eval(), (X,), verify=True)
    plant(monkeypatch, "aten.exp.default", lambda right, c, x: LOWERINGS["aten.sin.default"](c, x))
    with pytest.raises(clave.Error, match="the first node that differs is exp"):
        clave.export(fn(lambda q, k, v: attend(q, k, v).exp()), qkv, verify=True)


def test_the_first_node_that_differs_is_named(monkeypatch):
    plant(monkeypatch, "aten.sin.default", lambda right, c, x: LOWERINGS["aten.cos.default"](c, x))
    with pytest.raises(
        clave.Error, match=r"'forward' .*: result 0 is off by .*; the first node .* is sin \(elementwise\)"
    ):
        clave.export(fn(lambda x: (x.exp().sin() * 2).sum(-1)), (X,), verify=True)
    clave.export(fn(lambda x: x.exp().sin()), (X,), verify=False)


def test_integers_are_exact(monkeypatch):
    plant(monkeypatch, "aten.mul.Tensor", lambda right, c, a, b: right(c, a, 3))
    with pytest.raises(clave.Error, match=r"different in 11 of 12 elements; the first node that differs is mul"):
        clave.export(fn(lambda x: x * 2), (torch.arange(12),), verify=True)


def test_a_difference_of_a_thousandth(monkeypatch):
    plant(monkeypatch, "aten.mul.Tensor", lambda right, c, a, b: right(c, a, 2.002))
    with pytest.raises(clave.Error, match=r"the first node that differs is mul"):
        clave.export(fn(lambda x: (x * 2).exp()), (X,), verify=True)


def test_what_is_wrong_at_other_sizes_only(monkeypatch):
    plant(monkeypatch, "aten.div.Tensor", lambda right, c, a, b: right(c, a, 3))
    with pytest.raises(clave.Error, match="the first node that differs is div"):
        clave.export(fn(lambda x: x.sum(0) / x.shape[0]), (X,), dynamic_shapes=(({0: BATCH},),), verify=True)


@pytest.mark.parametrize(
    "f, wrong, says",
    [
        (lambda x: x.neg().exp(), lambda x: x.exp(), "the first node that differs is exp"),
        (lambda x: x.exp().neg(), lambda x: x.exp(), r"one of the passes is wrong: \{'planted': 1\}"),
    ],
)
def test_a_wrong_pass(monkeypatch, f, wrong, says):
    """The remaining nodes of the second program are right."""
    broken = clave.export(fn(wrong), (X,))
    broken.passes = {"planted": 1}
    monkeypatch.setattr(clave.Program, "optimized", lambda self, passes=None: broken)
    with pytest.raises(clave.Error, match=says):
        clave.export(fn(f), (X,), verify=True)


def test_special_values():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0])
    clave.export(fn(lambda x: (x * 2, x - x, torch.zeros(0), x > 0, x * 0)), (x,), verify=True)


@pytest.mark.parametrize(
    "got, want, same", [(1, 1, True), (NAN, NAN, True), (NAN, 1.0, False), (1.0, NAN, False), (1, 2, False)]
)
def test_numbers_among_the_results(got, want, same):
    assert (_other_number(got, want) is None) == same


def test_other_sizes_are_within_their_bounds():
    module = fn(lambda x, y, n: x.sum() + y.sum() + n)
    shapes = (({0: BATCH}, {0: 2 * BATCH, 1: Dim("k", min=5, max=5000)}, None),)
    args = (X, torch.arange(30).reshape(6, 5), 7)
    exported = torch.export.export(module, args, dynamic_shapes=shapes)
    reference = Reference.of("forward", module, args, None, exported)
    _, ((x, y, n), _, want) = reference.runs()
    assert want == module(x, y, n)
    assert x.shape == (4, 4) and y.shape == (8, 6) and n == 7
    assert set(y.flatten().tolist()) <= set(range(30)) and set(x.flatten().tolist()) <= set(X.flatten().tolist())


def test_a_size_that_stands_in_formulas_alone():
    module = fn(lambda x: x.sum(1))
    exported = torch.export.export(module, (torch.ones(6, 5),), dynamic_shapes=(({0: 2 * BATCH, 1: 2 * BATCH - 1},),))
    shapes = [args[0].shape for args, _, _ in Reference.of("f", module, (torch.ones(6, 5),), None, exported).runs()]
    assert shapes == [(6, 5), (8, 7)]


@pytest.mark.parametrize("limit", [3, 4])
def test_sizes_that_eager_does_not_take_are_left_out(limit):
    def f(x):
        torch._check(x.shape[0] <= limit)
        return x * 2

    module = fn(f)
    exported = torch.export.export(module, (X,), dynamic_shapes=(({0: Dim.AUTO},),))
    sizes = [args[0].shape[0] for args, _, _ in Reference.of("f", module, (X,), None, exported).runs()]
    assert sizes[0] == 3 and len(sizes) == 2 and sizes[1] <= limit


def test_what_cannot_be_verified_is_refused_by_name():
    with pytest.raises(clave.Error, match="'forward' cannot be verified: rand_like draws random numbers"):
        clave.export(fn(lambda x: x + torch.rand_like(x)), (X,), verify=True)
    branches = fn(lambda x: torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x * 1, (x,)))
    with pytest.raises(clave.Error, match=r"'forward' cannot be verified: .* draws random numbers"):
        clave.export(branches, (X,), verify=True)
    graph = torch.export.export(fn(lambda x: x + 1), (X,))
    graph._example_inputs = None
    with pytest.raises(clave.Error, match="its graph has no example inputs"):
        clave.export(graph, verify=True)
