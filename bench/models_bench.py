"""Whole models against onnxruntime and torch on the same CPU, each engine in processes of its own, in turns."""

import pathlib
import statistics
import subprocess
import sys

from process import measured

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "bench/engine.py"
PYTHON = ROOT / ".venv-bench/bin/python"  # has onnxruntime and what exports to it
MISSING = "Not measured: needs ci/requirements-bench.txt: ci/venv bench"
TURNS = 7
TOLERANCE = 2e-4  # of the largest value: f32 sums in another order through some dozens of layers
# Guards against getting slower, of the time over onnxruntime's: on OpenCL, on the CPU backend.
BOUNDS = {
    "ResNet-18": (2.3, 3.2),
    "ResNet-50": (2.4, 2.9),
    "MobileNetV2": (5, 6.5),
    "ViT-S/16": (1.8, 2.4),
    "BERT-base, 128 tokens": (1.6, 1.8),
    "UNet": (2.6, 3),
}
HEAD = [
    "| model, device | ms | over onnxruntime's: median of 7 turns (least to most) | over torch's "
    "| largest difference from torch | peak memory over onnxruntime's | should be at most |",
    "|---|---|---|---|---|---|---|",
]


def is_current(folder):
    """Whether a model was exported after the last change of its module and the exporter."""
    made = folder / "model.onnx"
    sources = [ENGINE, ENGINE.with_name("models.py"), *(ROOT / "python/clave").rglob("*.py")]
    return made.exists() and made.stat().st_mtime > max(s.stat().st_mtime for s in sources)


def difference(folder, engine):
    """The largest difference of an engine's results from torch's, over the largest value of the tensor."""
    import numpy as np
    from safetensors.numpy import load_file

    want, got = (load_file(folder / f"{name}.safetensors") for name in ("torch", engine))
    assert {k: v.shape for k, v in want.items()} == {k: v.shape for k, v in got.items()}, (folder, engine)
    return max(float(np.abs(got[k] - w).max() / np.abs(w).max()) for k, w in want.items())


class Engines:
    """What runs one model: clave by the names of its devices, onnxruntime, torch."""

    def __init__(self, args, name, small=False):
        self.tool, self.name, self.small = args.build / "clave", name, ["--small"] if small else []
        self.folder = args.work / "models" / f"{name.split(',')[0].replace('/', '_')}{'_small' if small else ''}"
        self.devices = [args.device, "cpu"]
        self.names = [*self.devices, "onnxruntime", "torch"]

    def export(self):
        if not is_current(self.folder):
            measured([PYTHON, ENGINE, "export", self.name, self.folder, *self.small])

    def on_device(self, command, device, *more):
        """A command of the tool on the model's program and inputs."""
        files = [self.folder / "model.clv", "--inputs", self.folder / "inputs.safetensors"]
        return [self.tool, command, *files, "--device", device, "--no-fallback", *more]

    def run(self, name, runs):
        """{"median_ms", "peak_rss_mb"} of a process."""
        if name in self.devices:
            return measured(self.on_device("bench", name, "--runs", runs, "--warmup", 2, "--json"))
        python = PYTHON if name == "onnxruntime" else sys.executable
        return measured([python, ENGINE, name, self.name, self.folder, runs, *self.small])

    def differences(self):
        """{device: largest difference from torch's results}; builds the kernels. Of onnxruntime it must be small."""
        for device in self.devices:
            subprocess.run(
                self.on_device("run", device, "--outputs", self.folder / f"{device}.safetensors"), check=True
            )
        self.run("onnxruntime", 1)
        assert difference(self.folder, "onnxruntime") <= TOLERANCE, f"{self.name}: onnxruntime is wrong"
        return {device: difference(self.folder, device) for device in self.devices}

    def turns(self, count):
        """[{engine: what a process of it measured}]: about a second of runs in each."""
        runs = {name: max(3, min(50, round(1000 / self.run(name, 1)["median_ms"]))) for name in self.names}
        return [{name: self.run(name, runs[name]) for name in self.names} for _ in range(count)]


def row(name, device, turns, error, bound):
    """A line of the table; the model has no time where its results are wrong."""
    title = f"{name}, {device}"
    if not error <= TOLERANCE:
        return f"| {title} | nan | nan | nan | {error:.0e} (wrong) | nan | {bound} |"
    ratios = {e: sorted(t[device]["median_ms"] / t[e]["median_ms"] for t in turns) for e in ("onnxruntime", "torch")}
    median = statistics.median
    memory = median(t[device]["peak_rss_mb"] / t["onnxruntime"]["peak_rss_mb"] for t in turns)
    ours = ratios["onnxruntime"]
    return (
        f"| {title} | {median(t[device]['median_ms'] for t in turns):.1f} "
        f"| {median(ours):.2f} ({ours[0]:.2f} to {ours[-1]:.2f}) | {median(ratios['torch']):.2f} "
        f"| {error:.0e} | {memory:.2f} | {bound} |"
    )


def bench_models(args, names=tuple(BOUNDS), small=False, turns=TURNS):
    if not PYTHON.exists():
        return [MISSING]
    lines = list(HEAD)
    for name in names:
        engines = Engines(args, name, small)
        engines.export()
        errors, measures = engines.differences(), engines.turns(turns)
        for device, bound in zip(engines.devices, BOUNDS[name], strict=True):
            lines.append(row(name, device, measures, errors[device], bound))
            print(lines[-1], flush=True)
    return lines
