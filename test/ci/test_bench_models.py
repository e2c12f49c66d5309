"""The models that bench/ measures: their sizes are the published ones, results are those of torch, a wrong model has
no time."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import clave

# As published, classifiers of 1,000 classes included; UNet: with batch norms, two classes.
PARAMETERS = {
    "MNIST": 33_194,
    "ResNet-18": 11_689_512,
    "ResNet-50": 25_557_032,
    "MobileNetV2": 3_504_872,
    "ViT-S/16": 22_050_664,
    "BERT-base, 128 tokens": 109_482_240,
    "UNet": 31_037_698,
}


@pytest.fixture(scope="module")
def bench(root):
    """The modules of bench/, by name."""
    sys.path.insert(0, str(root / "bench"))
    import bounds
    import models
    import models_bench

    import bench

    return argparse.Namespace(bench=bench, bounds=bounds, models=models, table=models_bench)


@pytest.fixture
def args(build, tmp_path):
    return argparse.Namespace(build=build, work=tmp_path, device="opencl", idle=True)


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(bench, name):
    with torch.device("meta"):
        module = bench.models.MODELS[name].build()
    assert sum(p.numel() for p in module.parameters()) == PARAMETERS[name]


def test_models_of_the_table(bench):
    """All but those that are too small to be measured beside a process' start: they are for compiled programs."""
    assert list(bench.models.MODELS) == list(PARAMETERS)
    assert [name for name in PARAMETERS if name not in bench.table.BOUNDS] == ["MNIST"]
    assert set(bench.table.BOUNDS) <= set(PARAMETERS)


def relative(got, want):
    """The largest difference over the largest value."""
    return (got - want).abs().max() / want.abs().max()


@pytest.mark.parametrize("name", PARAMETERS)
def test_small_model(bench, name):
    """Few and narrow layers of each: results of a sane size that the batch norms' statistics matter to."""
    module, inputs = bench.models.make(name, small=True)
    as_tuple = lambda y: y if isinstance(y, tuple) else (y,)
    want = as_tuple(module(*inputs))
    got = as_tuple(clave.Session(clave.export(module, inputs), "cpu")(*inputs))
    assert all(0.1 < w.std() < 10 for w in want)
    assert all(relative(g, w) <= bench.table.TOLERANCE for g, w in zip(got, want, strict=True))
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
    changed = as_tuple(module(*inputs))
    assert not norms or all(relative(c, w) > 0.01 for c, w in zip(changed, want, strict=True))


def turns(*times):
    """Turns of engines that took so many ms: opencl, onnxruntime, torch."""
    names = ("opencl", "onnxruntime", "torch")
    return [{n: {"median_ms": t, "peak_rss_mb": 10 * t} for n, t in zip(names, turn, strict=True)} for turn in times]


def test_row(bench):
    """The ratio is the median of those within a turn, whatever the machine did between turns."""
    line = bench.table.row("UNet", "opencl", turns((3, 2, 1), (50, 25, 100), (9, 5, 9)), 1e-6, 1.9)
    assert line == "| UNet, opencl | 9.0 | 1.80 (1.50 to 2.00) | 1.00 | 1e-06 | 1.80 | 1.9 |"


@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_model_has_no_time(bench, error):
    line = bench.table.row("UNet", "opencl", turns((1, 2, 2)), error, 9)
    assert "0.5" not in line
    assert list(bench.bounds.rows_over("models", [*bench.table.HEAD, line])) == ["UNet, opencl"]


def test_difference(bench, tmp_path):
    for name, more in (("torch", 0), ("cpu", 0.5), ("opencl", np.nan)):
        save_file(
            {"output_0": np.array([1, -4, 2], "f") + np.array([0, 0, more], "f")}, tmp_path / f"{name}.safetensors"
        )
    assert bench.table.difference(tmp_path, "cpu") == 0.125
    assert np.isnan(bench.table.difference(tmp_path, "opencl"))


def test_torch_in_a_process(bench, root, tmp_path):
    command = [sys.executable, root / "bench/engine.py", "torch", "UNet", tmp_path, "2", "--small"]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert 0 < measured["median_ms"] < 60000 and 50 < measured["peak_rss_mb"] < 5000


def test_without_onnxruntime(bench, args, monkeypatch, tmp_path, capsys):
    """The table is skipped by name."""
    monkeypatch.setattr(bench.table, "PYTHON", tmp_path / "absent")
    assert bench.table.bench_models(args) == [bench.table.MISSING]
    assert bench.bench.check(args, "models")
    assert "skipped: models: Not measured: needs ci/requirements-bench.txt" in capsys.readouterr().out


def test_table(bench, args):
    if not bench.table.PYTHON.exists():
        pytest.skip("needs ci/requirements-bench.txt: ci/venv bench")
    args.device = "cpu"
    lines = bench.table.bench_models(args, ["UNet"], small=True, turns=2)
    rows = [bench.bounds.cells(line) for line in lines[2:]]
    assert [r[0] for r in rows] == ["UNet, cpu"] * 2
    assert all(float(r[1]) > 0 and float(r[2].split()[0]) > 0 and float(r[4]) <= bench.table.TOLERANCE for r in rows)
