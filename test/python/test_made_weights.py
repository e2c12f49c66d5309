"""Weights that forward makes, by every kind of factory and from constants of every origin, read by every op that packs
weights: products, convolutions, embeddings."""

import pytest
import torch
import torch.nn.functional as F

import clave


def _shaped(values, *shape):
    return values.reshape(shape)


def _count(shape):
    return torch.Size(shape).numel()


FACTORIES = {
    "ones": lambda *s: torch.ones(s),
    "zeros": lambda *s: torch.zeros(s),
    "full": lambda *s: torch.full(s, 1 / 9),
    "full of an int": lambda *s: torch.full(s, 3).float(),
    "eye": lambda *s: _shaped(torch.eye(s[0], _count(s[1:])), *s),
    "arange": lambda *s: _shaped(torch.arange(_count(s)).float(), *s),
    "signs": lambda *s: _shaped(1 - 2 * (torch.arange(_count(s)) % 2).float(), *s),
    "linspace": lambda *s: _shaped(torch.linspace(-1, 1, _count(s)), *s),
    "tril": lambda *s: _shaped(torch.tril(torch.ones(s[0], _count(s[1:]))), *s),
    "empty.fill_": lambda *s: torch.empty(s).fill_(0.5),
    "ones_like": lambda *s: torch.ones_like(torch.zeros(s)) * 0.25,
    "literal": lambda *s: _shaped(torch.tensor([0.5, -1.0, 2.0]).repeat(_count(s))[: _count(s)], *s),
    "a scalar, expanded": lambda *s: torch.tensor(0.5).expand(s),
    "a row, expanded": lambda *s: torch.arange(s[-1]).float().expand(s),
    "turned": lambda *s: _shaped(torch.arange(_count(s)).float(), *s[::-1]).permute(*reversed(range(len(s)))),
    "every second": lambda *s: _shaped(torch.arange(2 * _count(s)).float()[::2], *s),
    "codes and a scale": lambda *s: (_shaped(torch.arange(_count(s)) % 7, *s).to(torch.int8).float() - 3) * 0.125,
    "triu and where": lambda *s: torch.where(torch.triu(torch.ones(s[0], _count(s[1:]))) > 0, 1.0, -1.0).reshape(s),
}


class Made(torch.nn.Module):
    """All ops that pack weights, each with a weight of a different shape."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x, ids):
        make, row, plane, box = self.make, x[None], x[None, None], x[None, None, None]
        return (
            F.linear(x, make(5, 6)),
            F.linear(x, make(5, 6), make(5)),
            x @ make(6, 3),
            torch.mm(x, make(6, 3)),
            torch.addmm(make(4, 3), x, make(6, 3)),
            torch.bmm(row, make(1, 6, 3)),
            F.conv1d(row, make(2, 4, 3)),
            F.conv2d(plane, make(2, 1, 3, 3), padding=1),
            F.conv3d(box, make(2, 1, 1, 2, 2)),
            F.conv_transpose1d(row, make(4, 2, 2), stride=2),
            F.conv_transpose2d(plane, make(1, 2, 2, 2)),
            F.conv_transpose3d(box, make(1, 2, 1, 2, 2)),
            F.embedding(ids, make(7, 6)),
        )


def check(module, *inputs, tolerance=1e-5, **how):
    got = clave.Session(clave.export(module.eval(), inputs, **how), device="cpu")(*inputs)
    want = module(*inputs)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


X, IDS = torch.randn(4, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([1, 5, 0])


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("name", FACTORIES)
def test_weights_of_factories(name):
    check(Made(FACTORIES[name]), X, IDS)


@pytest.mark.parametrize("quantize", ["int8", "int4:32"])
def test_weights_of_factories_beside_quantized_ones(quantize):
    class Both(Made):
        def __init__(self):
            super().__init__(FACTORIES["signs"])
            self.linear = torch.nn.Linear(6, 6, bias=False)
            with torch.no_grad():
                self.linear.weight.copy_(torch.eye(6))

        def forward(self, x, ids):
            return super().forward(self.linear(x), ids)

    check(Both(), X, IDS, tolerance=0.2, quantize=quantize)


class OfOrigin(torch.nn.Module):
    """A weight (6, 6) that two products, one of them transposed, and an embedding read."""

    def __init__(self, origin):
        super().__init__()
        self.origin = origin
        self.scale = torch.nn.Parameter(torch.tensor(0.5))
        self.row = torch.nn.Parameter(torch.arange(6.0))
        self.register_buffer("codes", (torch.arange(36).reshape(6, 6) % 5 - 2).to(torch.int8))
        self.register_buffer("nothing", torch.zeros(0, 6))
        self.register_buffer("wide", torch.arange(72.0).reshape(6, 12))
        self.tied = self.row

    def forward(self, x, ids):
        weight = self.origin(self)
        return x @ weight, F.linear(x, weight), F.embedding(ids, weight)


ORIGINS = {
    "a scalar parameter": lambda m: m.scale.expand(6, 6),
    "a parameter and a factory": lambda m: m.scale * torch.eye(6),
    "a tied row, expanded": lambda m: (m.row + m.tied).expand(6, 6),
    "an outer product": lambda m: torch.outer(m.row, torch.ones(6)),
    "codes and a scalar": lambda m: m.codes.float() * m.scale,
    "codes and a number": lambda m: m.codes.float() * 0.25,
    "codes and rows of a factory": lambda m: m.codes.float() * torch.full((6, 1), 0.5),
    "a part of another": lambda m: m.wide[:, 3:9],
    "every second column": lambda m: m.wide[:, ::2],
    "nothing and a factory": lambda m: torch.cat([m.nothing, torch.ones(6, 6)]),
    "no number": lambda m: torch.full((6, 6), float("nan")),
    "infinite": lambda m: torch.full((6, 6), float("inf")),
    "a scale of zero": lambda m: m.codes.float() * torch.zeros(6, 1),
}


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("name", ORIGINS)
def test_weights_of_every_origin(name):
    module, x = OfOrigin(ORIGINS[name]).eval(), X.abs() + 1
    got = clave.Session(clave.export(module, (x, IDS), verify=False), device="cpu")(x, IDS)
    torch.testing.assert_close(got, module(x, IDS), rtol=1e-5, atol=1e-5, equal_nan=True)


class Empty(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return F.linear(x, self.make(0, 6)), x @ self.make(6, 0), x[:, :0] @ self.make(0, 3)


@pytest.mark.parametrize("name", ["ones", "full", "arange", "a scalar, expanded", "literal"])
def test_weights_without_elements(name):
    check(Empty(FACTORIES[name]), X)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_weights_of_factories_in_other_types(dtype):
    class Module(torch.nn.Module):
        def forward(self, x):
            ones = torch.ones(2, 6, dtype=dtype)
            return (
                F.linear(x, ones),
                x @ torch.eye(6, dtype=dtype),
                F.embedding(IDS, torch.arange(42).view(7, 6).to(dtype)),
            )

    check(Module(), X.to(dtype), tolerance=1e-2)
