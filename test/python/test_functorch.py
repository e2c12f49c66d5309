"""Transforms of torch.func in a module's forward: exported if torch traces them, otherwise a clave.Error. None of them
stays open in the process."""

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jvp, vjp, vmap

import clave

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(1))


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.function(self, x)


def _with_weights(m, x):
    return functional_call(m.linear, {"weight": m.linear.weight * 2, "bias": m.linear.bias}, (x,))


def _of_stacked_weights(m, x):
    weights = torch.stack([m.linear.weight, m.linear.weight * 2])
    return vmap(lambda w, row: functional_call(m.linear, {"weight": w, "bias": m.linear.bias}, (row,)))(weights, x)


def _over(in_dims=0, out_dims=0, **more):
    return lambda m, x: vmap(lambda row: row * 2 + 1, in_dims=in_dims, out_dims=out_dims, **more)(x)


def _both(a, b):
    return a, b


EXPORTED = {
    **{f"vmap from {i} to {o}": _over(i, o) for i in (0, 1, -1) for o in (0, 1, 2, -1)},
    "vmap in chunks": _over(1, 1, chunk_size=2),
    "two vmaps": lambda m, x: vmap(vmap(lambda r: r.sum(0) + r, out_dims=-1), in_dims=1, out_dims=1)(x),
    "an operand that is not mapped": lambda m, x: vmap(torch.add, in_dims=(0, None), out_dims=1)(x, x[0]),
    "a result that is not mapped": lambda m, x: vmap(lambda a, b: (a, b), in_dims=(0, None), out_dims=(1, None))(
        x, x[0]
    ),
    "several results": lambda m, x: vmap(lambda a: (a + 1, a.sum()), out_dims=(1, 0))(x),
    "a dict": lambda m, x: vmap(lambda d: d["a"] * 2 + d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}),
    "other weights": _with_weights,
    "stacked weights": _of_stacked_weights,
    "a directional derivative": lambda m, x: jvp(torch.sin, (x,), (x,)),
}
REFUSED = {
    "grad": lambda m, x: grad(lambda a: (a**2).sum())(x),
    "vjp": lambda m, x: vjp(torch.sin, x)[1](x),
    "jacfwd": lambda m, x: jacfwd(torch.sin)(x[0, 0]),
    "hessian": lambda m, x: hessian(lambda a: (a**3).sum())(x[0, 0]),
    "backward": lambda m, x: m.linear(x).sum().backward() or x,
}


@pytest.mark.by_turn(5)
@pytest.mark.parametrize("name", EXPORTED)
def test_transforms_that_torch_traces(name):
    module = Module(EXPORTED[name]).eval()
    got = clave.Session(clave.export(module, (X,)), device="cpu")(X)
    torch.testing.assert_close(got, module(X), rtol=1e-5, atol=1e-5)


def test_vmap_behind_others_and_strict():
    module = Module(_over(1, 2)).eval()
    got = clave.Session(clave.export(module, (X,), strict=True), device="cpu")(X)
    torch.testing.assert_close(got, module(X))
    with pytest.raises(clave.Error, match=r"a transform of torch\.func .*strict=True"):
        clave.export(module, (X,), strict=False)


@pytest.mark.parametrize("strict", [None, True])
@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_cannot_trace_is_refused_and_nothing_stays_open(name, strict):
    with pytest.raises(clave.Error, match=r"torch\.func|backward"):
        clave.export(Module(REFUSED[name]).eval(), (X.clone(),), strict=strict)
    torch.nn.Linear(2, 2)  # draws numbers, which an open vmap refuses
    jvp(torch.sin, (X,), (X,))  # refused inside an open forward-mode transform
