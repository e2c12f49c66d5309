"""Complex numbers inside a program, as pairs: rotary embeddings as Meta's models write them, arithmetic, views.

An operand is two real operands, so the error of a product is that of a sum of two products.
"""

import torch

from describe import F16, F32, F64, I64, Case, T, name_of, ulps

real = torch.view_as_real


class Rope(torch.nn.Module):
    """Rotary embedding with precomputed angles, by position."""

    def __init__(self, cached):
        super().__init__()
        angles = torch.outer(torch.arange(16.0), 100 ** -(torch.arange(4.0) / 4))
        self.register_buffer("angles", torch.polar(torch.ones_like(angles), angles) if cached else angles)
        self.cached = cached

    def forward(self, x, positions):
        turn = self.angles if self.cached else torch.polar(torch.ones_like(self.angles), self.angles)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        turned = real(pairs * turn[positions].unsqueeze(1)).flatten(-2)
        return turned.type_as(x), real(turn[2:5])


def arithmetic(a, b):
    x, y = torch.complex(a, b), torch.view_as_complex(torch.stack([b, a + 3], -1))
    results = [
        x + y,
        x - y,
        x * y,
        x / y,
        x * 2.5,
        x / 3,
        2 - x,
        -x,
        x.conj().resolve_conj(),
        torch.exp(x),
        x * 1j,
        a * (1 + 2j),
    ]
    results += [x * a, torch.add(x, y, alpha=2), torch.polar(a, b), a.to(x.dtype)]
    return (*map(real, results), x.abs(), x.angle(), x.real + y.imag)


def views(a, b):
    x, y = torch.complex(a, b), torch.complex(b, a)
    results = [
        x.transpose(0, -1),
        x.permute(1, 0),
        x[:, 1],
        x[0:1],
        torch.cat([x, y], -1),
        torch.stack([x, y]),
        x.unsqueeze(-1),
        x.flatten(),
        y.unflatten(-1, (2, 2)),
    ]
    return tuple(map(real, (*results, x.expand(2, *x.shape), x.repeat(2, 3), x.reshape(-1))))


def functions(a, b):
    x, y = torch.complex(a, b), torch.complex(b, a - 2)
    results = [x.sqrt(), y.sqrt(), x.log(), x.log10(), y.log2(), x.sin(), x.cos(), y.sinh(), y.cosh(), y.reciprocal()]
    results += [
        x.sgn(),
        x**2,
        x**3.0,
        y**0.5,
        torch.where(a > 0, x, y),
        x.sum(),
        x.mean(0),
        x.sum((0, 1), keepdim=True),
    ]
    results += [torch.full_like(x, 2 - 1j), torch.zeros_like(x), torch.ones(3, dtype=x.dtype) + x[:, :3], x @ y.mT]
    return (*map(real, results), x == y, x != torch.complex(a, b + (a > 0)))


def powers(a, b):
    x, y = torch.complex(a, b), torch.complex(b, a)
    return tuple(map(real, (x**2.5, x**y, y ** (1 + 2j), torch.pow(2.0, x), x**-1)))


def special(a, b):
    """Arguments for which a formula would divide by zero."""
    x = torch.complex(a, b)
    return tuple(map(real, (x.sqrt(), x.sgn(), x**1.5, x**0, x.abs() * (1 + 1j))))


def moves(a, b):
    x = torch.complex(a, b)
    results = [
        x.t(),
        x.flip(0),
        x.flip(-1, 0),
        x.roll(1, -1),
        x.roll(2),
        x.mT,
        torch.nn.functional.pad(x, (1, 0, 2, 1)),
    ]
    return tuple(map(real, (*results, *x.split(3, -1), *x.unbind(), *x.chunk(2, 1))))


def cases():
    for dtype in (F32, F64):
        tol = ulps(dtype, 32)
        parts = [T((3, 5), dtype, 0.3, 2), T((3, 5), dtype, 0.2, 1.5)]
        yield Case(f"functions_{name_of(dtype)}", functions, parts, rtol=tol, atol=tol)
        yield Case(f"powers_{name_of(dtype)}", powers, parts, rtol=tol * 4, atol=tol * 8)
    odd = [T((3, 4), F32, values=(0.0, -0.0, 1.0, -4.0, 0.0, 3.0)), T((3, 4), F32, values=(0.0, 2.0, 0.0, 0.0, -0.0))]
    yield Case("special", special, odd, rtol=ulps(F32, 32), atol=ulps(F32, 32))
    yield Case("moves", moves, [T((3, 5)), T((3, 5))])
    for dtype in (F32, F64):
        tol = ulps(dtype, 16)
        parts = [T((3, 5), dtype), T((3, 5), dtype)]
        yield Case(f"arithmetic_{name_of(dtype)}", arithmetic, parts, rtol=tol, atol=tol)
    yield Case("views", views, [T((3, 4)), T((3, 4))])
    sequence = torch.export.Dim("sequence", min=2, max=16)
    for dtype in (F32, F16):
        inputs = [T((2, 7, 3, 8), dtype), T((7,), I64, 0, 15)]
        for name, cached in (("constant", True), ("computed", False)):
            dynamic = {"x": {1: sequence}, "positions": {0: sequence}} if cached else None
            tol = ulps(dtype, 16)
            yield Case(
                f"rope_{name}_{name_of(dtype)}", Rope(cached), inputs, rtol=tol, atol=tol, dynamic_shapes=dynamic
            )
