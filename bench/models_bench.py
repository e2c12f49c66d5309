"""Compares whole models and single layers with other engines on the same CPU, each engine in separate processes, in
alternation."""

import dataclasses
import os
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Callable

from process import measured, spread, wanted

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "bench/engine.py"
PYTHON = ROOT / ".venv-bench/bin/python"  # with onnxruntime, OpenVINO and their exporters
MISSING = "Not measured: needs ci/requirements-bench.txt: ci/venv bench"
NO_BF16 = "Not measured: OpenVINO has no bf16 on this processor"
TURNS, SECONDS = 5, 0.5  # turns, and seconds per engine and turn
TITLES = {"onnxruntime": "onnxruntime", "openvino": "OpenVINO", "torch": "torch"}
TITLES |= {"litert": "XNNPACK", "exported": "clave.export"}
BOTH = ("onnxruntime", "openvino")


def pairs(want, got):
    """Returns the tensors of two files as doubles, by name."""
    import numpy as np
    from safetensors.numpy import load_file

    want, got = load_file(want), load_file(got)
    assert {k: v.shape for k, v in want.items()} == {k: v.shape for k, v in got.items()}, (want.keys(), got.keys())
    return [(np.asarray(v, np.float64), np.asarray(got[k], np.float64)) for k, v in want.items()]


def largest(want, got):
    """Returns the largest difference in any result, relative to the largest value of its tensor."""
    return max(float(abs(g - w).max() / abs(w).max()) for w, g in pairs(want, got))


def moments(want, got):
    """Returns the largest difference of means or standard deviations, for random numbers."""
    return max(float(max(abs(g.mean() - w.mean()), abs(g.std() - w.std()))) for w, g in pairs(want, got))


@dataclasses.dataclass(frozen=True)
class Row:
    """aim: target for the time relative to the peer's; bounds: regression limits on OpenCL and the CPU backend, about
    1.3 times the measured ratio, or None if not measured; peers and tolerance: override those of the table."""

    aim: float
    bounds: tuple[float | None, float]
    peers: tuple[str, ...] = ()
    tolerance: float | None = None
    differ: Callable = largest


@dataclasses.dataclass(frozen=True)
class Table:
    """peers: compared with the fastest one; beside: shown only; int8: models quantised by pt2e; fast: in fast
    precision, with peers in bf16; tolerance: limit of the distance to torch's results; None: the distance of torch's
    own to f32; over_cpu: limit of OpenCL's time relative to the CPU backend's, the median of all rows, or None; judge:
    whose results are expected; most_runs: the most runs in a turn."""

    rows: dict[str, Row]
    peers: tuple[str, ...]
    beside: tuple[str, ...] = ()
    int8: bool = False
    fast: bool = False
    tolerance: float | None = None
    over_cpu: float | None = None
    judge: str = "torch"
    most_runs: int = 50

    def all_peers(self):
        return tuple(dict.fromkeys([*self.peers, *(p for r in self.rows.values() for p in r.peers), *self.beside]))


MODELS = Table(
    {
        "ResNet-18": Row(1.0, (1.1, 0.95)),
        "ResNet-50": Row(1.0, (1.4, 1.2)),
        "MobileNetV2": Row(1.11, (2.3, 1.5)),
        "EfficientNet-B0": Row(1.11, (1.8, 1.35)),
        "ViT-S/16": Row(1.0, (1.7, 1.55)),
        "BERT-base, 128 tokens": Row(1.0, (1.4, 1.45)),
        "Whisper-tiny encoder": Row(1.0, (1.5, 1.4)),
        "UNet": Row(0.91, (0.87, 0.73)),
        "UNet, group norms": Row(0.91, (0.92, 0.74)),
    },
    BOTH,
    beside=("torch",),
    tolerance=2e-4,  # f32 sums in another order through dozens of layers
    over_cpu=1.5,
)
# OpenCL on a CPU has no specialised kernels for these; only its results are checked.
FAST = Table(
    {
        "ResNet-18": Row(1.11, (None, 1.45)),
        "ResNet-50": Row(1.11, (None, 1.45)),
        "MobileNetV2": Row(1.11, (None, 1.7)),
        "EfficientNet-B0": Row(1.11, (None, 1.35)),
        "ViT-S/16": Row(1.11, (None, 1.2)),
        "BERT-base, 128 tokens": Row(1.11, (None, 1.35)),
        "Whisper-tiny encoder": Row(1.11, (None, 1.65)),
        "UNet": Row(1.11, (None, 1.4)),
        "UNet, group norms": Row(1.11, (None, 1.3)),
    },
    ("openvino",),
    fast=True,
    tolerance=0.1,  # OpenVINO keeps bf16 between layers, too
)
INT8 = Table(
    {
        "ResNet-50": Row(1.0, (None, 1.8)),
        "MobileNetV2": Row(1.0, (None, 2.1)),
        "BERT-base, 128 tokens": Row(1.0, (None, 1.4)),
    },
    BOTH,
    int8=True,
)
WORKS = Table(
    {
        "LSTM, batch 1": Row(1.0, (1.2, 0.8)),
        "LSTM, batch 16": Row(1.0, (1.75, 1.6)),
        "GRU, batch 1": Row(1.0, (0.8, 0.5)),
        "GRU, batch 16": Row(1.0, (0.6, 0.46)),
        "1,000 softmaxes of 2×2": Row(1.0, (25.0, 0.9), ("onnxruntime",)),
        "randn of 1,024×1,024": Row(1.0, (0.75, 0.56), tolerance=0.01, differ=moments),
        "median of rows of 1,024×1,024": Row(1.0, (1.4, 0.94)),
        "topk, 50 of rows of 64×32,000": Row(1.0, (0.8, 1.1)),
        "cdist, 1,024 by 1,024 of 64": Row(1.0, (1.5, 1.05)),
        "sort of rows of 1,024×1,024": Row(1.0, (0.33, 0.2)),
        "sort of 1,048,576": Row(1.0, (0.2, 0.1)),
    },
    ("torch",),
    tolerance=1e-5,
)


def is_current(made):
    """True if the model was exported after the last change of its module and of the exporter."""
    own = [ENGINE.with_name(name) for name in ("engine.py", "models.py", "works.py", "imported.py")]
    latest = max(s.stat().st_mtime for s in (*own, *(ROOT / "python/clave").rglob("*.py")))
    return made.exists() and made.stat().st_mtime > latest


class Engines:
    """The engines of one row: clave by device name, the others by engine name."""

    def __init__(self, args, name, small=False, table=MODELS):
        self.name, self.table, self.row = name, table, table.rows.get(name, Row(1.0, (1, 1)))
        kinds = [kind for kind, is_it in (("small", small), ("int8", table.int8)) if is_it]
        self.folder = args.work / "models" / re.sub(r"[^\w-]+", "_", "_".join([name, *kinds]))
        self.tool, self.options = args.build / "clave", [f"--{kind}" for kind in kinds]
        self.devices = [d for d, bound in zip((args.device, "cpu"), self.row.bounds, strict=True) if bound]
        self.peers = self.row.peers or table.peers
        self.names = [*self.devices, *dict.fromkeys([*self.peers, *table.beside])]
        self.ours = [name for name in self.names if name in (*self.devices, "exported")]

    def export(self):
        """Writes the model and its inputs, unless they are current. Returns False if they cannot be had here."""
        if not is_current(self.folder / "model.clv"):
            with_onnx = not {"torch"}.issuperset(self.peers)
            more = [*self.options, *(["--onnx"] if with_onnx else [])]
            measured([PYTHON if with_onnx else sys.executable, ENGINE, "export", self.name, self.folder, *more])
        return True

    def program(self, name):
        """Returns the program that clave runs as the engine of this name."""
        return self.folder / "model.clv"

    def on_device(self, command, name, *more):
        """Returns a command line of the tool for the model's program and inputs."""
        files = [self.program(name), "--inputs", self.folder / "inputs.safetensors"]
        device = "cpu" if name == "exported" else name
        return [self.tool, command, *files, "--device", device, "--no-fallback", *more]

    def environment(self):
        return {"CLAVE_PRECISION": "fast" if self.table.fast else "strict"}

    def run(self, name, runs):
        """Returns {"median_ms", "peak_rss_mb"} of a process."""
        if name in self.ours:
            command = self.on_device("bench", name, "--runs", runs, "--warmup", 2, "--json")
            return measured(command, self.environment())
        python = sys.executable if name == "torch" else PYTHON
        more = [*self.options, *(["--fast"] if self.table.fast else [])]
        return measured([python, ENGINE, name, self.name, self.folder, runs, *more])

    def results(self, name):
        return self.folder / f"{name}.safetensors"

    def tolerance(self):
        given = self.row.tolerance or self.table.tolerance
        return given or self.row.differ(self.results("plain"), self.results("torch"))

    def expected(self):
        return self.results("torch")

    def difference(self, name):
        """Returns the difference of an engine's results from the expected ones."""
        return self.row.differ(self.expected(), self.results(name))

    def differences(self):
        """Returns {device: difference} and builds the kernels. Fails if a peer's difference is large."""
        for name in self.ours:
            command = self.on_device("run", name, "--outputs", self.results(name))
            subprocess.run(command, check=True, env=os.environ | self.environment())
        for peer in self.peers:
            if peer != "torch":
                self.run(peer, 1)
                assert self.difference(peer) <= self.tolerance(), f"{self.name}: {peer} is wrong"
        return {device: self.difference(device) for device in self.devices}

    def turns(self, count):
        """Returns [{engine: measurements of a process}]."""
        fitting = lambda ms: max(3, min(self.table.most_runs, round(1000 * SECONDS / ms)))
        runs = {n: fitting(self.run(n, 1)["median_ms"]) for n in self.names}
        return [{n: self.run(n, runs[n]) for n in self.names} for _ in range(count)]


def head(table):
    of = " and ".join(TITLES[p] for p in table.peers)
    over = f"the faster of {of}" if len(table.peers) > 1 else "the peer" if len(table.all_peers()) > 1 else of
    peers = " ".join(f"| {TITLES[p]}, ms" for p in table.all_peers())
    return [
        f"| model, device | ms | relative to {over}: median of {TURNS} turns (least to most) {peers} "
        f"| peak memory relative to the peer's | largest difference from {table.judge} | aim | limit |",
        "|---" * (7 + len(table.all_peers())) + "|",
    ]


def fastest(peers, turns):
    return min(peers, key=lambda p: statistics.median(t[p]["median_ms"] for t in turns))


def row(engines, device, turns, error, tolerance):
    """Returns a line of the table; wrong results have no time."""
    table, title = engines.table, f"{engines.name}, {device}"
    bound = engines.row.bounds[device == "cpu"]
    if not error <= tolerance:
        unknown = " | nan" * (3 + len(table.all_peers()))
        return f"| {title}{unknown} | {error:.0e} (wrong) | {engines.row.aim} | {bound} |"
    peer, median = fastest(engines.peers, turns), statistics.median
    ms = lambda e: f"{median(t[e]['median_ms'] for t in turns):.3g}" if e in turns[0] else "–"
    ratios = [t[device]["median_ms"] / t[peer]["median_ms"] for t in turns]
    memory = median(t[device]["peak_rss_mb"] / t[peer]["peak_rss_mb"] for t in turns)
    peers = " | ".join(ms(p) for p in table.all_peers())
    return (
        f"| {title} | {ms(device)} | {spread(ratios)} | {peers} | {memory:.2f} | {error:.0e} "
        f"| {engines.row.aim} | {bound} |"
    )


def row_over_cpu(table, ratios):
    """Returns the last line of a table that has a limit for OpenCL relative to the CPU backend."""
    unmeasured = "– | " * len(table.all_peers())
    return (
        f"| all, OpenCL over the CPU backend | – | {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
        f"{max(ratios):.2f}) | {unmeasured}– | – | – | {table.over_cpu} |"
    )


def has_bf16():
    info = pathlib.Path("/proc/cpuinfo")
    return info.exists() and bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", info.read_text()))


def bench_table(table, args, names=None, small=False, turns=TURNS, kind=Engines):
    if not PYTHON.exists():
        return [MISSING]
    if table.fast and not has_bf16():
        return [NO_BF16]
    lines, over_cpu = head(table), []
    for name in names or [n for n in table.rows if wanted(args, n)]:
        engines = kind(args, name, small, table)
        if not engines.export():
            continue
        errors, measures, tolerance = engines.differences(), engines.turns(turns), engines.tolerance()
        for device in dict.fromkeys(engines.devices):
            lines.append(row(engines, device, measures, errors[device], tolerance))
            print(lines[-1], flush=True)
        over_cpu += [
            statistics.median(turn[device]["median_ms"] / turn["cpu"]["median_ms"] for turn in measures)
            for device in engines.devices
            if device != "cpu"
        ]
    if table.over_cpu and len(over_cpu) == len(table.rows):  # the median of fewer would not be comparable
        lines.append(row_over_cpu(table, over_cpu))
    return lines


def bench_models(args):
    return bench_table(MODELS, args)


def bench_fast(args):
    return bench_table(FAST, args)


def bench_int8(args):
    return bench_table(INT8, args)


def bench_works(args):
    return bench_table(WORKS, args)
