"""Bounds of computed sizes: right for every pair of operands within bounds, and present where inputs have bounds."""

import itertools
import math
import subprocess

import pytest
import torch
from torch.export import Dim

import clave
from clave import intervals, schema

K = schema.ScalarKind
FUNCTIONS = {
    K.add: lambda a, b: a + b,
    K.sub: lambda a, b: a - b,
    K.mul: lambda a, b: a * b,
    K.floor_div: lambda a, b: a // b,
    K.true_div: lambda a, b: a / b,
    K.mod: lambda a, b: a % b,
    K.min: min,
    K.max: max,
    K.neg: lambda a, b: -a,
    K.to_float: lambda a, b: float(a),
    K.to_int: lambda a, b: int(a),
    K.floor: lambda a, b: math.floor(a / 2),
    K.ceil: lambda a, b: math.ceil(a / 2),
    K.round: lambda a, b: round(a / 2),
}
ENDS = (-4, -1, 0, 1, 3, 5, None)


def members(interval):
    """Returns numbers in the interval, up to far beyond where it has no end."""
    low, high = interval
    return range(-30 if low is None else low, (30 if high is None else high) + 1)


@pytest.mark.parametrize("kind", FUNCTIONS, ids=str)
def test_results_are_within_the_bounds(kind):
    halves = kind in (K.floor, K.ceil, K.round)
    spans = [(a, b) for a, b in itertools.product(ENDS, ENDS) if None in (a, b) or a <= b]
    for a, b in itertools.product(spans, spans):
        scaled = tuple(None if x is None else x / 2 for x in a) if halves else a
        low, high = intervals.of(kind, scaled, b)
        for x, y in itertools.product(members(a), members(b)):
            if y == 0 and kind in (K.floor_div, K.true_div, K.mod):
                continue
            got = FUNCTIONS[kind](x, y)
            assert (low is None or low <= got) and (high is None or got <= high), (kind, a, b, x, y, low, high)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 16)
        self.pos = torch.nn.Parameter(torch.randn(512, 16))
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids):
        x = self.table(ids) + self.pos[: ids.shape[1]] + torch.arange(ids.shape[1])[:, None]
        x = self.layer(x)
        wide = torch.nn.functional.interpolate(x.transpose(1, 2), scale_factor=1.5)
        return x.mean(1), wide, torch.nn.functional.pad(x, (0, 0, 1, 2)).unfold(1, 2, 1), x.flatten(0, 1)


def exported():
    shapes = {0: Dim("batch", max=64), 1: Dim("length", min=2, max=512)}
    return clave.export(Encoder().eval(), (torch.ones(2, 6, dtype=torch.int64),), dynamic_shapes=(shapes,))


def inspect(build, program, file):
    program.save(file)
    return subprocess.run([build / "clave", "inspect", file], capture_output=True, text=True, check=True).stdout


def test_an_encoder_with_bounds_has_a_bound_of_memory(build, tmp_path):
    program = exported()
    assert program.report.methods[0].memory > 2**20
    assert "temporaries and outputs at most" in inspect(build, program, tmp_path / "m.clv")
    assert [o.bounds[-2:] for o in program.methods["forward"].outputs][1] == ((16, 16), (3, 768))
    session = clave.Session(program, device="cpu")
    for batch, length in ((0, 2), (1, 3), (64, 512)):
        wide = session(torch.ones(batch, length, dtype=torch.int64))[1]
        assert wide.shape == (batch, 16, int(length * 1.5))


def test_the_size_without_a_bound_is_named(build, tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.GELU()).eval()
    shapes = {0: Dim("batch", max=4), 1: Dim("rows")}
    program = clave.export(net, (torch.ones(2, 3, 4),), dynamic_shapes=(shapes,))
    assert program.report.methods[0].memory is None and "unbounded: rows has no upper bound" in str(program.report)
    assert "temporaries without a bound: rows has none" in inspect(build, program, tmp_path / "m.clv")
