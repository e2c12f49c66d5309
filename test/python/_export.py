"""Shared parts of the exporter's tests: modules of functions, and exports that are compared with eager."""

import torch
from torch import nn

import clave


class Fn(nn.Module):
    """Wraps a function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args, **kwargs):
        return self.f(*args, **kwargs)


def check(module, *argss, kwargs=None, **more):
    """Exports with the first arguments, runs all of them on the CPU backend, compares structure, dtypes and values."""
    module = module.eval() if isinstance(module, nn.Module) else Fn(module).eval()
    program = clave.export(module, argss[0], kwargs, **more)
    session = clave.Session(program, "cpu")
    with torch.no_grad():
        for args in argss:
            same(session(*args, **(kwargs or {})), module(*args, **(kwargs or {})))
    return program


def same(got, want):
    assert type(got) is type(want) or isinstance(want, tuple), (type(got), type(want))
    got_leaves, want_leaves = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    assert len(got_leaves) == len(want_leaves)
    for g, w in zip(got_leaves, want_leaves, strict=True):
        if isinstance(w, torch.Tensor):
            torch.testing.assert_close(g, w, equal_nan=True)
        else:
            assert g == w and type(g) is type(w)


def instructions(program, *kinds):
    found = [i for c in program.schema.chains for i in c.instructions]
    return [i for i in found if not kinds or type(i.op).__name__ in kinds]


class Counter(nn.Module):
    """Sums its inputs in a buffer."""

    def __init__(self, start):
        super().__init__()
        self.register_buffer("total", torch.full((3,), float(start)))

    def forward(self, x):
        self.total += x
        return self.total * 2
