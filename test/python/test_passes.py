"""Programs after each pass alone, after all and after none agree; graphs that passes must not change."""

from pathlib import Path

import pytest
import torch
from test_folding import Block, D
from test_patterns import F16, Fn, W, export, run, x
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(17)
DIMS = ({0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=2, max=64)},)
# Passes that keep all bits.
EXACT = ("dead_code", "cast", "view", "number", "equal", "grouped_attention", "join_rope", "integer_move", "requantize")
EXACT += ("open_cache",)
ROUNDED = (
    "narrow_b",
    "constant",
    "gelu",
    "silu",
    "layer_norm",
    "rms_norm",
    "norm_in_16_bits",
    "attention",
    "attention_mask",
    "rope",
    "padding",
    "batch_norm",
    "bias",
    "early_slice",
    "join_matmul",
    "integer_conv",
    "integer_matmul",
    "page_cache",
)


class Stateful(nn.Module):
    """Branches, a loop, state, several outputs of one tensor, an output that is an input."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, D)
        self.register_buffer("count", torch.zeros(D))

    def forward(self, x):
        self.count += x.sum((0, 1))
        y = torch.cond(x.sum() > 0, lambda t: t * torch.sigmoid(t), lambda t: t.float().half().float() + 1, (x,))
        z = self.linear(y) * 0.5 * (1 + torch.erf(self.linear(y) / 2**0.5))
        return z, z.view(-1, D), x, self.count + torch.arange(D).exp().log()


MODELS = {"block": lambda: Block(), "stateful": lambda: Stateful()}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    torch.manual_seed(1)
    module = MODELS[request.param]().eval()
    return module, clave.export(module, (x(2, 5, D),), dynamic_shapes=DIMS, passes=())


def results(program):
    torch.manual_seed(2)
    session = clave.Session(program, "cpu")
    return [y for shape in ((2, 5, D), (1, 2, D), (3, 9, D)) for y in session(x(*shape))]


@pytest.mark.parametrize(
    "chosen", [*((p,) for p in (*EXACT, *ROUNDED)), None], ids=lambda c: "all" if c is None else c[0]
)
def test_each_pass_alone(model, chosen):
    _, plain = model
    made = plain.optimized(chosen)
    assert made.refused == {} and set(made.passes) <= set(chosen or (*EXACT, *ROUNDED))
    rtol, atol = (0, 0) if chosen and chosen[0] in EXACT else (2e-5, 2e-5)
    torch.testing.assert_close(results(made), results(plain), rtol=rtol, atol=atol)


def test_none_leaves_all(model):
    module, plain = model
    again = plain.optimized(())
    assert again.passes == {} and again.schema.chains == plain.schema.chains
    assert clave.export(module, (x(2, 5, D),), dynamic_shapes=DIMS).passes


def test_a_pass_that_there_is_not():
    with pytest.raises(clave.Error, match="unknown pass 'polish'; the passes are dead_code, "):
        clave.export(Fn(torch.exp).eval(), (x(),), passes=["polish"])


def test_outputs_that_became_one_tensor():
    def f(x):
        y = x.exp()
        return y, y.view(-1).view(2, 5, D), x.view(-1).view(2, 5, D), x, x.exp()

    module, program = export(f, (x(),))
    run(module, program, (x(),))
    assert len({o.tensor.idx for o in program.schema.methods[0].outputs}) == 5
    assert program.passes["view"] and program.refused == {}


def test_what_differs_in_an_attribute_is_not_computed_twice():
    f = lambda x: (
        x.cumsum(1) + x.cumsum(2) + torch.softmax(x, 1) * torch.softmax(x, 2) + x.clamp(min=0.5) + x.clamp(min=1)
    )
    module, program = export(f, (x(),))
    assert "equal" not in program.passes
    run(module, program, (x(),))


def test_random_numbers_are_no_constants():
    program = clave.export(Fn(lambda x: x + torch.rand(D)).eval(), (x(),))
    session = clave.Session(program, "cpu")
    a = x()
    assert not torch.equal(session(a), session(a))


def test_narrow_weights_stay_narrow():
    w = torch.randint(-127, 127, (128, D), dtype=torch.int8)
    module, program = export(lambda x, w, s: x @ (w.float() * s).t(), (x(),), w=w, s=torch.rand(128, 1) / 100)
    assert sum(".folded" in c.name for c in program.schema.constants) == 0
    run(module, program, (x(),))


def test_sizes_that_are_equal_are_one():
    def f(x):
        b, length, _ = x.shape
        return x.reshape(b * length, D).exp().view(b, length, D) + x.reshape(length * b, D).sin().view(b, length, D)

    module, program = export(f, (x(2, 5, D),), dynamic_shapes=(DIMS,))
    products = [i for c in program.schema.chains for i in c.instructions if type(i.op).__name__ == "IntScalar"]
    assert len(products) <= 1
    for shape in ((2, 5, D), (3, 7, D)):
        run(module, program, (x(*shape),))


def test_state_is_kept():
    module = Stateful().eval()
    program = clave.export(module, (x(),), verify=True)
    session = clave.Session(program, "cpu")
    a = x()
    first, second = session(a)[3], session(a)[3]
    torch.testing.assert_close(second - first, a.sum((0, 1)), rtol=1e-4, atol=1e-4)


def test_16_bits(dtype=F16):
    a = x(dtype=dtype)
    module, program = export(lambda x, w: (x * w).relu().float().half() + x, (a,), w=W.to(dtype))
    assert torch.equal(clave.Session(program, "cpu")(a), module(a))


def test_the_documents_name_every_pass():
    listed = (Path(__file__).resolve().parents[2] / "docs/howto/export.md").read_text()
    assert all(f"`{name}`" in listed for name in (*EXACT, *ROUNDED))
    with pytest.raises(clave.Error) as e:
        clave.export(Fn(torch.exp).eval(), (x(),), passes=["polish"])
    assert set(str(e.value).split("the passes are ")[1].split(", ")) == {*EXACT, *ROUNDED}
