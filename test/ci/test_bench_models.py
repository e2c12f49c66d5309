"""The measurements of bench/ against other engines: sizes of models are the published ones, results are torch's, and
wrong results have no time."""

import argparse
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

import clave

# Published counts, with classifiers of 1,000 classes; Whisper: its encoder; UNet: with norms and two classes.
PARAMETERS = {
    "MNIST": 33_194,
    "ResNet-18": 11_689_512,
    "ResNet-50": 25_557_032,
    "MobileNetV2": 3_504_872,
    "EfficientNet-B0": 5_288_548,
    "ViT-S/16": 22_050_664,
    "BERT-base, 128 tokens": 109_482_240,
    "Whisper-tiny encoder": 8_208_384,
    "UNet": 31_037_698,
    "UNet, group norms": 34_519_298,
}


@pytest.fixture(scope="module")
def bench(root):
    """Returns the modules of bench/, by name."""
    sys.path.insert(0, str(root / "bench"))
    import bounds
    import imported
    import imported_bench
    import models
    import models_bench
    import works

    import bench

    modules = {"bounds": bounds, "models": models, "works": works, "imported": imported, "files": imported_bench}
    return argparse.Namespace(bench=bench, table=models_bench, **modules)


@pytest.fixture
def args(build, tmp_path):
    return argparse.Namespace(build=build, work=tmp_path, device="opencl", idle=True, rows=None)


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(bench, name):
    with torch.device("meta"):
        module = bench.models.MODELS[name].build()
    assert sum(p.numel() for p in module.parameters()) == PARAMETERS[name]


def test_models_of_the_table(bench):
    """The table has all models that take long enough beside the start of a process; compiled programs have others."""
    assert list(bench.models.MODELS) == list(PARAMETERS)
    assert [name for name in PARAMETERS if name not in bench.table.MODELS.rows] == ["MNIST"]
    tables = (bench.table.MODELS, bench.table.FAST, bench.table.INT8)
    assert all(set(table.rows) <= set(PARAMETERS) for table in tables)
    assert list(bench.table.WORKS.rows) == list(bench.works.WORKS)


def test_imported_models(bench, args, tmp_path):
    """Rows of imported models have a file, a network of the published size, or a model of the other table. A row of
    clave.export compares two programs on the same device."""
    rows, known = bench.files.IMPORTED.rows, {*bench.imported.FILES, *bench.imported.NETWORKS, *PARAMETERS}
    assert set(rows) <= known and {*bench.imported.FILES, *bench.imported.NETWORKS} <= set(rows)
    with torch.device("meta"):
        yolo = bench.imported.NETWORKS["YOLOv8n"].build()
    assert sum(p.numel() for p in yolo.parameters()) == 3_157_184
    engines = bench.files.Imported(args, "ResNet-18", table=bench.files.IMPORTED)
    assert engines.names == ["cpu", "exported"] and engines.program("cpu").name == "model.onnx"
    command = engines.on_device("bench", "exported")
    assert command[command.index("--device") + 1] == "cpu" and engines.program("exported") in command


def test_mobilenet_of_int8(bench, tmp_path):
    """The network of codes differs little from XNNPACK's results, and few codes saturate."""
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert is installed")
    x = np.random.default_rng(1).integers(-128, 128, (1, 224, 224, 3), np.int8)
    model = bench.imported.mobilenet_int8()
    interpreter = litert.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    want = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    got = clave.Session(clave.from_tflite(model), "cpu").run(x)[0]
    assert np.abs(want.astype(int) - np.asarray(got)).max() <= 3
    assert want.std() > 20 and (np.abs(want.astype(int)) >= 127).mean() < 0.1


def relative(got, want):
    """Returns the largest difference relative to the largest value."""
    return (got - want).abs().max() / want.abs().max()


@pytest.mark.parametrize("name", PARAMETERS)
def test_small_model(bench, name):
    """Results of a model with few, narrow layers are neither huge nor tiny, and depend on batch norms' statistics."""
    module, inputs = bench.models.make(name, small=True)
    as_tuple = lambda y: y if isinstance(y, tuple) else (y,)
    want = as_tuple(module(*inputs))
    got = as_tuple(clave.Session(clave.export(module, inputs), "cpu")(*inputs))
    assert all(0.1 < w.std() < 10 for w in want)
    assert all(relative(g, w) <= bench.table.MODELS.tolerance for g, w in zip(got, want, strict=True))
    norms = [m for m in module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
    changed = as_tuple(module(*inputs))
    assert not norms or all(relative(c, w) > 0.01 for c, w in zip(changed, want, strict=True))


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("device", ["cpu", "opencl"])
def test_small_works(bench, device, tmp_path):
    """Results that torch can reproduce are equal; random numbers have the same moments."""
    from engine import leaves, save_tensors

    for name, work in bench.works.WORKS.items():
        row, (module, inputs) = bench.table.WORKS.rows[name], bench.models.seeded(name, work, small=True)
        got = clave.Session(clave.export(module, inputs, verify=False), device)(*inputs)
        for kind, tensors in (("want", leaves(module(*inputs))), ("got", leaves(got))):
            save_tensors(tmp_path / kind, "output", [t.detach() for t in tensors])
        assert row.differ(tmp_path / "want", tmp_path / "got") <= (row.tolerance or bench.table.WORKS.tolerance), name


class Some(argparse.Namespace):
    """Engines of a row, with the fields that `row` reads."""

    def __init__(self, table, bounds=(1.9, 9), peers=None):
        row = argparse.Namespace(aim=1.1, bounds=bounds)
        super().__init__(name="UNet", table=table, row=row, peers=peers or table.peers)


def turns(*times):
    """Returns turns of engines with these times in ms: opencl, onnxruntime, openvino, torch."""
    names = ("opencl", "onnxruntime", "openvino", "torch")
    return [{n: {"median_ms": t, "peak_rss_mb": 10 * t} for n, t in zip(names, turn, strict=True)} for turn in times]


def test_row(bench):
    """The ratio is the median of the turns' ratios to the faster of both peers, whatever the machine did between turns;
    torch is not a peer."""
    measured = turns((3, 2, 9, 1), (50, 25, 9, 100), (9, 5, 9, 4))
    line = bench.table.row(Some(bench.table.MODELS), "opencl", measured, 1e-6, 1e-4)
    assert line == "| UNet, opencl | 9 | 1.80 (1.50 to 2.00) | 5 | 9 | 4 | 1.80 | 1e-06 | 1.1 | 1.9 |"
    line = bench.table.row(Some(bench.table.MODELS), "cpu", [t | {"cpu": t["opencl"]} for t in measured], 1e-6, 1e-4)
    assert line.endswith("| 9 |")
    slower = turns((3, 2, 1, 1), (50, 25, 10, 100), (9, 5, 3, 4))
    assert "| 3.00 (3.00 to 5.00) |" in bench.table.row(Some(bench.table.MODELS), "opencl", slower, 1e-6, 1e-4)


def test_row_over_cpu(bench):
    """One slow model does not raise the median; if most models are slow, the row exceeds its bound."""
    heading = bench.table.head(bench.table.MODELS)
    for ratios, over in (([1.1, 9, 1.2], []), ([1.1, 1.6, 1.7], ["all, OpenCL over the CPU backend"])):
        line = bench.table.row_over_cpu(bench.table.MODELS, ratios)
        assert len(bench.bounds.cells(line)) == len(bench.bounds.cells(heading[0]))
        assert list(bench.bounds.rows_over("models", [*heading, line])) == over


def test_row_with_a_peer_of_its_own(bench):
    """Engines that did not run are shown as dashes."""
    measured = [{k: v for k, v in t.items() if k in ("opencl", "torch")} for t in turns((4, 1, 1, 2))]
    line = bench.table.row(Some(bench.table.WORKS), "opencl", measured, 0, 1e-4)
    columns = bench.bounds.cells(bench.table.head(bench.table.WORKS)[0])
    cells = dict(zip(columns, bench.bounds.cells(line), strict=True))
    assert cells["torch, ms"] == "2" and cells["onnxruntime, ms"] == "–"
    assert cells["relative to the peer: median of 5 turns (least to most)"] == "2.00 (2.00 to 2.00)"


@pytest.mark.parametrize("error", [1e-3, float("nan")])
def test_a_wrong_model_has_no_time(bench, error):
    for table in (bench.table.MODELS, bench.table.FAST):
        line = bench.table.row(Some(table), "opencl", turns((1, 2, 2, 2)), error, 1e-4)
        assert "0.5" not in line and len(bench.bounds.cells(line)) == len(
            bench.bounds.cells(bench.table.head(table)[0])
        )
        assert list(bench.bounds.rows_over("models", [*bench.table.head(table), line])) == ["UNet, opencl"]


def test_largest_difference(bench, tmp_path):
    for name, more in (("torch", 0), ("cpu", 0.5), ("opencl", np.nan)):
        save_file(
            {"output_0": np.array([1, -4, 2], "f") + np.array([0, 0, more], "f")}, tmp_path / f"{name}.safetensors"
        )
    want, cpu, opencl = (tmp_path / f"{name}.safetensors" for name in ("torch", "cpu", "opencl"))
    assert bench.table.largest(want, cpu) == 0.125
    assert np.isnan(bench.table.largest(want, opencl))


@pytest.mark.parametrize(("scale", "shift"), [(1.1, 0), (1, 0.1), (1, np.nan)])
def test_moments(bench, tmp_path, scale, shift):
    """Numbers of another seed pass; numbers of another spread or mean fail."""
    random, files = np.random.default_rng(1), [tmp_path / n for n in ("want", "other", "wrong")]
    draws = [random.standard_normal(1 << 18).astype("f") for _ in files]
    draws[2] = draws[2] * np.float32(scale) + np.float32(shift)
    for file, x in zip(files, draws, strict=True):
        save_file({"output_0": x}, file)
    assert bench.table.moments(*files[:2]) <= 0.01
    assert not bench.table.moments(files[0], files[2]) <= 0.01


def test_tolerance_of_quantised_models(bench, args):
    """The tolerance is the distance by which rounding to 8 bits moves torch's own results."""
    engines = bench.table.Engines(args, "ResNet-50", small=True, table=bench.table.INT8)
    engines.folder.mkdir(parents=True)
    for name, x in (("plain", [2, -4]), ("torch", [2.5, -4])):
        save_file({"output_0": np.array(x, "f")}, engines.results(name))
    assert engines.tolerance() == 0.125
    assert bench.table.Engines(args, "UNet").tolerance() == 2e-4


def test_torch_in_a_process(bench, root, tmp_path):
    command = [sys.executable, root / "bench/engine.py", "torch", "UNet", tmp_path, "2", "--small"]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert 0 < measured["median_ms"] < 60000 and 50 < measured["peak_rss_mb"] < 5000


def test_without_onnxruntime(bench, args, monkeypatch, tmp_path, capsys):
    """The table is reported as skipped, by name."""
    monkeypatch.setattr(bench.table, "PYTHON", tmp_path / "absent")
    assert bench.table.bench_models(args) == [bench.table.MISSING]
    assert bench.bench.check(args, "models")
    assert "skipped: models: Not measured: needs ci/requirements-bench.txt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("MODELS", "UNet, group norms"),
        ("FAST", "EfficientNet-B0"),
        ("INT8", "BERT-base, 128 tokens"),
        ("WORKS", "1,000 softmaxes of 2×2"),
    ],
)
@pytest.mark.by_turn(8)
def test_table(bench, args, table, name):
    if not bench.table.PYTHON.exists():
        pytest.skip("needs ci/requirements-bench.txt: ci/venv bench")
    args.device, table = "cpu", getattr(bench.table, table)
    lines = bench.table.bench_table(table, args, [name], small=True, turns=2)
    if lines == [bench.table.NO_BF16]:
        pytest.skip(bench.table.NO_BF16)
    (row,) = [bench.bounds.cells(line) for line in lines[2:]]
    assert len(row) == len(bench.bounds.cells(lines[0])) and row[0] == f"{name}, cpu"
    assert float(row[1]) > 0 and float(row[2].split()[0]) > 0
