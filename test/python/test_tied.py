"""Tied embeddings: rows of a table that a product also packs are read from its panels, bit for bit, and the table's
pages of the file do not stay in memory."""

import pathlib
import re

import gguf
import numpy as np
import pytest
import torch
from test_encodings import BLOCKS, Tables, same_bits
from torch import nn

import clave
from clave.encodings import Blocks, Stored

pytestmark = pytest.mark.by_turn(12)
DEVICES = ("cpu", "opencl")
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
GROUPS = ("int8", "int4:32", "int5:16:f32", "int8:48", "e4m3", "e5m2:64", "int4:32:zeros:f32")
FORMS = (BLOCKS[:5], BLOCKS[5:10], BLOCKS[10:], GROUPS)


class Heads(Tables):
    """Products with all of the tables."""

    def forward(self, x):
        return [nn.functional.linear(x[:, : t.shape[1]].to(t.dtype), t) for t in self.tables]


class Turned(Tables):
    """Rows by a transposed index."""

    def forward(self, ids):
        return super().forward(ids.t())


def ids_of(tables):
    return torch.arange(len(tables[0])).flip(0)


def tied(tables, quantize=None, kind=Tables, ids=None):
    """Exports two methods of the same tables, of equal numbers of rows: rows, last first or by ids; and products."""
    rows, heads = kind(tables), Heads([])
    heads.tables = rows.tables
    ids = ids_of(tables) if ids is None else ids
    x = torch.zeros(2, max(t.shape[1] for t in tables))
    return clave.export({"rows": (rows, (ids,)), "heads": (heads, (x,))}, quantize=quantize, verify=False), x


def rows_before_and_after(tables, device, quantize=None):
    """Returns the rows as stored, and from the panels that the products have made."""
    program, x = tied(tables, quantize)
    session = clave.Session(program, device)
    before = session(ids_of(tables), method="rows")
    session(x, method="heads")
    return before, session(ids_of(tables), method="rows")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 33, 130])
def test_rows_of_floats(rows, device):
    torch.manual_seed(1)
    tables = [torch.randn(rows, k).to(dtype) for dtype in FLOATS for k in (1, 5, 72)]
    tables[-1][0, 0], tables[-1][-1, -1] = float("nan"), float("inf")
    for many in rows_before_and_after(tables, device):
        for got, table in zip(many, tables, strict=True):
            assert same_bits(got.float(), table.flip(0).float())


def stored_as(form, rows, k):
    """Returns blocks of any bytes, whose scales may be infinite or NaN."""
    if form not in BLOCKS:
        return form
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[form]]
    return Stored(
        Blocks(form).table(), np.random.default_rng(1).integers(0, 256, (rows, k // elements * size), np.uint8)
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("forms", FORMS)
def test_rows_of_codes(forms, device):
    """The last block of a panel is partial, and for groups also the last part of a row."""
    rows, k = 37, 1280 if forms[0] in BLOCKS else 976
    tables = [torch.randn(rows, k) + i / 4 for i in range(len(forms))]  # zero points other than 0
    stored = iter([stored_as(form, rows, k) for form in forms])
    before, after = rows_before_and_after(tables, device, lambda *_: next(stored))
    for form, was, now in zip(forms, before, after, strict=True):
        assert same_bits(was, now), form


@pytest.fixture
def cpus(processes):
    """Returns a process in which OpenCL devices use the kernels of CPUs. Those of GPUs read a table in memory shared
    with the host in place."""
    return processes["cpu"]


def resident_kb(process, program):
    """Returns the resident KB of a program's file in the process."""
    lines = pathlib.Path(f"/proc/{process.process.pid}/smaps").read_text().splitlines()
    begins = [i for i, line in enumerate(lines) if line.endswith(f" {process.programs[program]}")]
    sizes = [re.match(r"Rss: +(\d+) kB", line) for i in begins for line in lines[i + 1 : i + 6]]
    assert begins
    return sum(int(m[1]) for m in sizes if m)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", [*FLOATS, "int8", "Q8_0"])
def test_pages_of_the_table_are_let_go(form, device, cpus):
    is_float = form in FLOATS
    tables = [torch.randn(4096, 512, dtype=form if is_float else torch.float32)]
    program, x = tied(tables, None if is_float else form)
    session, ids = cpus.open(program, device), ids_of(tables).numpy()
    session.run(ids, method="rows")
    assert resident_kb(cpus, program) > 1024, "of the table, which no product has packed yet"
    session.run(x.numpy(), method="heads")
    session.run(ids, method="rows")
    assert resident_kb(cpus, program) < 64


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", [torch.float32, "int8"])
def test_indices(form, device):
    """Indices are 32-bit and transposed. One out of range is refused, in the table and in panels."""
    torch.manual_seed(1)
    table, ids = torch.randn(70, 72), torch.arange(69, 54, -1, dtype=torch.int32).reshape(3, 5)
    program, x = tied([table], None if form in FLOATS else form, Turned, ids)
    session, made = clave.Session(program, device), []
    for _ in range(2):
        (rows,) = session(ids, method="rows")
        made.append(rows)
        for bad in (-1, 70):
            wrong = ids.clone()
            wrong[2, 3] = bad
            with pytest.raises(clave.Error, match=rf"index {bad} out of range \[0, 69\]"):
                session(wrong, method="rows")
        session(x, method="heads")
    assert same_bits(*made)
    torch.testing.assert_close(made[1], table[ids.t().long()], rtol=0, atol=0 if form in FLOATS else 0.04)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [40, 48])
def test_a_table_that_a_product_reads_as_it_lies(columns, device):
    """The rows of the table are k of the product: panels have them in other places."""
    table = torch.randn(48, columns)
    rows = Tables([table])

    class Plain(Tables):
        def forward(self, x):
            return x @ self.tables[0]

    plain = Plain([])
    plain.tables = rows.tables
    ids, x = torch.arange(48), torch.ones(2, 48)
    session = clave.Session(clave.export({"rows": (rows, (ids,)), "plain": (plain, (x,))}, verify=False), device)
    session(x, method="plain")
    assert same_bits(session(ids, method="rows")[0], table)
