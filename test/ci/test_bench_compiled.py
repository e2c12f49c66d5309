"""The table of compiled programs: its rows, and one small model through all measurements."""

import argparse
import sys

import pytest


@pytest.fixture(scope="module")
def bench(root):
    """Returns the modules of bench/, by name."""
    sys.path.insert(0, str(root / "bench"))
    import bounds
    import compile_bench

    return argparse.Namespace(bounds=bounds, table=compile_bench)


class Made:
    """Returns a model whose executable by `--target c` has the given error."""

    made = {"c": 2.5, "iree": 7.25}

    def __init__(self, error=1e-7):
        self.error = error

    def answer(self, name):
        return ["true", name]

    def difference(self, name):
        return self.error

    def extra_kb(self, name):
        return 202.4


TIMES = [{"c": c, "cpu": cpu, "iree": 8, "onnxruntime": 2} for c, cpu in ((4, 4), (5, 4), (4, 5))]


def test_row(bench):
    """Ratios are between times of the same turn."""
    cells = bench.bounds.cells(bench.table.row("MNIST", Made(), TIMES, "c"))
    assert cells[:3] == ["MNIST, `--target c`", "2.5", "202"] and float(cells[3]) > 0
    assert cells[4:] == ["4", "1.00 (0.80 to 1.25)", "0.50", "2.00", "1e-07", "1.05"]


def test_row_of_the_peer(bench):
    cells = bench.bounds.cells(bench.table.row("MNIST", Made(), TIMES, "iree"))
    assert cells[0] == "MNIST, IREE" and cells[5] == "–" and cells[6] == "1.00" and cells[-1] == "–"


@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_model_has_no_time(bench, error):
    line = bench.table.row("MNIST", Made(error), TIMES, "c")
    assert "nan" in line and "1.00" not in line
    assert list(bench.bounds.rows_over("compiled", [*bench.table.HEAD, line])) == ["MNIST, `--target c`"]


def test_slower_than_the_interpreter(bench):
    """A slow row exceeds its bound. The row of the other engine has no bound."""
    turns = [t | {"c": 6} for t in TIMES]
    lines = [bench.table.row("MNIST", Made(), turns, name) for name in ("c", "iree")]
    assert list(bench.bounds.rows_over("compiled", [*bench.table.HEAD, *lines])) == ["MNIST, `--target c`"]


def test_table(bench, build, tmp_path):
    if not bench.table.PYTHON.with_name("iree-compile").exists():
        pytest.skip("needs ci/requirements-bench.txt: ci/venv bench")
    args = argparse.Namespace(build=build, work=tmp_path, device="opencl", idle=True)
    rows = [bench.bounds.cells(line) for line in bench.table.bench_compile(args, ["MNIST"], small=True, turns=1)[2:]]
    assert [r[0] for r in rows] == ["MNIST, `--target c`", "MNIST, `--target opencl`", "MNIST, IREE"]
    assert all(float(r[i]) > 0 for r in rows for i in (1, 3, 4, 6, 7))
