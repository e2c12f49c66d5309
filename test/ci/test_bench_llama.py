"""The language models that bench/ compares with llama.cpp: their sizes, the spread of their weights, the rows."""

import argparse
import subprocess
import sys

import gguf
import numpy as np
import pytest
from gguf import quants

# The published count of TinyLlama, and the count of 12 layers with tied embeddings.
PARAMETERS = {"110 M": 109_529_856, "1.1 B": 1_100_048_384}


@pytest.fixture(scope="module")
def bench(root):
    sys.path.insert(0, str(root / "bench"))
    import bounds
    import llama_bench
    import llama_files
    import load_bench

    return argparse.Namespace(table=llama_bench, files=llama_files, bounds=bounds, load=load_bench)


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(bench, name):
    assert sum(max(rows, 1) * columns for _, rows, columns in bench.files.tensors(name)) == PARAMETERS[name]


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0", "Q4_K"])
def test_weights_have_one_spread(bench, kind, tmp_path):
    """All weights, also in blocks, have the same spread, and the file is the same each time."""
    for file in ("a", "b"):
        bench.files.write(tmp_path / file, "small", kind)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    tensors = {t.name: t for t in gguf.GGUFReader(tmp_path / "a").tensors}
    t = tensors["blk.1.ffn_down.weight"]
    assert t.tensor_type.name == kind and tuple(t.shape) == (512, 256)
    x = quants.dequantize(t.data, t.tensor_type)
    assert 0.018 < x.std() < 0.022 and abs(x.mean()) < 0.003 and np.isfinite(x).all()


def test_prefill_of_2048(bench):
    """Only F16 has prompts of 2048 tokens: for blocks they would show the same as prompts of 512."""
    lengths = {k: bench.table.lengths("1.1 B", k) for k in bench.table.AIMS}
    assert [k for k, n in lengths.items() if 2048 in n] == ["F16"] and all(512 in n for n in lengths.values())


def test_every_type_has_aims_and_a_tolerance(bench):
    assert list(bench.table.AIMS) == list(bench.table.TOLERANCE) == list(bench.files.TYPES)


def turns(*times):
    """Returns turns with (OpenCL fast, llama.cpp) times; strict precision takes twice as long as fast."""
    row = lambda s, off: (
        {what: {"s": s, "core_s": 10 * s} for what in ("first", "prefill 32", "decode 32", "decode 2048")}
        | {"peak_rss_mb": 7.0, "logits": np.array([3, 4 + off], "f")}
    )
    engines = {
        ("opencl", "strict"): (2, 9),
        ("opencl", "fast"): (1, 0.01),
        ("cpu", "strict"): (1, 0),
        ("cpu", "fast"): (1, 0),
    }
    return [{e: row(own * t * n, off) for e, (own, off) in engines.items()} | {"llama": row(t, 0)} for t, n in times]


def test_rows(bench):
    """The ratio is the median of the turns' ratios, whatever happens between turns. Wrong logits have no ratio."""
    engines = argparse.Namespace(
        name="small", kind="F16", devices=["opencl", "cpu"], time="s", ours=list(turns((1, 1))[0])[:-1], lengths=(32,)
    )
    first, *rest = bench.table.speed_rows(engines, turns((1, 2), (8, 4), (2, 0.5)))
    assert first == "| small F16, prefill 32 | opencl | 16.0 | nan | 0.50 (0.25 to 2.00) | 1.1; 2.0 |"
    assert [r.split("|")[4].strip() for r in rest] == ["0.50 (0.25 to 2.00)"] + 2 * ["nan", "0.50 (0.25 to 2.00)"]
    assert "decode 32 |" in rest[1] and "decode 2048 |" in rest[3] and "| 0.5 |" in rest[1]


def test_without_llama_cpp(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(bench.table, "PYTHON", tmp_path / "absent")
    lines = bench.table.bench_llama(argparse.Namespace())
    assert "needs ci/requirements-llama.txt" in lines[0] and not bench.bounds.is_table(lines)


def test_table(bench, build, tmp_path):
    if not bench.table.PYTHON.exists():
        pytest.skip("no llama_cpp (ci/venv llama builds it)")
    args = argparse.Namespace(build=build, work=tmp_path, device="cpu", idle=False, rows=None)
    lines = bench.table.bench_llama(args, ["small"], ["Q8_0"], turns=1)
    rows = [bench.bounds.cells(line) for line in lines[2:5]]
    assert [r[0] for r in rows] == ["small Q8_0, " + what for what in ("prefill 32", "decode 32", "decode 2048")]
    assert all(float(cell.split()[0]) > 0 for r in rows for cell in r[2:5])


@pytest.mark.by_turn(12)
def test_loads(bench, root, build, tmp_path, monkeypatch):
    monkeypatch.setattr(bench.load, "TURNS", 1)
    folder = build.relative_to(root)  # the folder's name as in the build: another name would build everything again
    subprocess.run(["make", "-s", f"BUILD={folder}", f"{folder}/bench/decoder"], cwd=root, check=True)
    args = argparse.Namespace(build=build, work=tmp_path, device="cpu", idle=False)
    lines = bench.load.bench_load(args, "small", "Q4_0")
    how = [bench.bounds.cells(line)[0] for line in lines[2:]]
    assert how == ["small Q4_0, packed on the way, cpu", "small Q4_0, from a packed file, cpu"]
    assert bench.bounds.has_bounds(lines) and not bench.bounds.rows_over("load", lines)
    assert not (tmp_path / "load_packed.clv").exists()
