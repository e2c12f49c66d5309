"""Compares compiled programs with the interpreter, with executables of the same models by IREE, and with onnxruntime
sessions on the same CPU. Each engine runs in separate processes, in alternation."""

import statistics
import subprocess

from models_bench import MISSING, MODELS, PYTHON, Engines
from process import measured, seconds, spread

NAMES = ("MNIST", "ResNet-18")
TARGETS = {"c": "cpu", "opencl": "opencl"}  # target: device of the interpreter
TURNS = 7
TOLERANCE = MODELS.tolerance
IREE_FLAGS = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
]
BOUND = 1.05  # limit of the run time relative to the interpreter's
HEAD = [
    "| model, compiler | compile time, s | size without weights, KB | start to answer, ms | a run, ms "
    "| relative to `clave bench`: median of 7 turns (least to most) | relative to IREE | relative to onnxruntime "
    "| largest difference from torch | limit |",
    "|---|---|---|---|---|---|---|---|---|---|",
]


def timed(command, env=None):
    """Returns the wall seconds of a process that must succeed."""
    return seconds(lambda: subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL, env=env))


def min_ms(command, times=7):
    return 1000 * min(timed(command) for _ in range(times))


class Compiled:
    """One model: executables by clave, a module by IREE, the interpreter and onnxruntime."""

    def __init__(self, args, name, small=False):
        self.engines = Engines(args, name, small)
        self.engines.export()
        self.folder, self.tool = self.engines.folder, args.build / "clave"
        self.made, self.names = {}, [*TARGETS, "iree"]

    def prepare(self):
        """Writes raw inputs and torch's results, and counts the bytes of the weights."""
        import numpy as np
        from safetensors.numpy import load_file

        (x,) = load_file(self.folder / "inputs.safetensors").values()
        (self.expected,) = load_file(self.folder / "torch.safetensors").values()
        x.tofile(self.folder / "input.bin")
        np.save(self.folder / "input.npy", x)
        report = measured([self.tool, "inspect", self.folder / "model.clv", "--json"])
        self.weights = report["constant_bytes"]

    def iree(self, tool):
        return PYTHON.with_name(f"iree-{tool}")

    def make(self):
        """Makes the executables and IREE's module, and records the seconds of each in self.made."""
        mlir, program = self.folder / "model.mlir", self.folder / "model.clv"
        for target in TARGETS:
            command = [self.tool, "compile", program, "-o", self.folder / target, "--target", target]
            self.made[target] = timed(command)
        timed([self.iree("import-onnx"), self.folder / "model.onnx", "-o", mlir])
        self.made["iree"] = timed([self.iree("compile"), mlir, *IREE_FLAGS, "-o", self.folder / "model.vmfb"])

    def of_iree(self, tool, *more):
        module = [f"--module={self.folder}/model.vmfb", "--function=main_graph", f"--input=@{self.folder}/input.npy"]
        return [self.iree(tool), "--device=local-task", *module, *more]

    def answer(self, name):
        """Returns the command that starts a process and writes the result to a file."""
        if name == "iree":
            return self.of_iree("run-module", f"--output=@{self.folder}/iree.npy")
        return [self.folder / name, self.folder / "input.bin", self.folder / f"{name}.bin"]

    def difference(self, name):
        import numpy as np

        file = self.folder / f"{name}.{'npy' if name == 'iree' else 'bin'}"
        got = np.load(file) if name == "iree" else np.fromfile(file, "f").reshape(self.expected.shape)
        return float(np.abs(got - self.expected).max() / np.abs(self.expected).max())

    def extra_kb(self, name):
        """Returns the KB beyond the weights; IREE's module also needs its runtime."""
        if name != "iree":
            return ((self.folder / name).stat().st_size - self.weights) / 1000
        (runtime,) = PYTHON.parent.parent.glob("lib/*/site-packages/iree/_runtime_libs/iree-run-module")
        return ((self.folder / "model.vmfb").stat().st_size + runtime.stat().st_size - self.weights) / 1000

    def run_ms(self, name, runs):
        """Returns the median of a process's runs, in ms."""
        if name == "iree":
            more = [f"--benchmark_min_time={runs}x", "--benchmark_format=json"]
            (found,) = measured(self.of_iree("benchmark-module", *more))["benchmarks"]
            return found["real_time"] / {"ns": 1e6, "us": 1e3, "ms": 1}[found["time_unit"]]
        if name in TARGETS:
            command = [self.folder / name, "--bench", runs, self.folder / "input.bin"]
            words = subprocess.run([*map(str, command)], check=True, capture_output=True, text=True).stdout.split()
            return float(words[words.index("median_ms") + 1])
        return self.engines.run(name, runs)["median_ms"]

    def turns(self, count):
        """Returns [{name: ms per run}], with about a second of runs in each."""
        names = [*self.names, *TARGETS.values(), "onnxruntime"]
        runs = {n: max(5, min(1000, round(1000 / self.run_ms(n, 3)))) for n in names}
        return [{n: self.run_ms(n, runs[n]) for n in names} for _ in range(count)]


def ratios(turns, name, other):
    return [t[name] / t[other] for t in turns]


def row(model, compiled, turns, name):
    """Returns a line of the table; wrong results have no time."""
    start, error = min_ms(compiled.answer(name)), compiled.difference(name)
    title = f"{model}, {'IREE' if name == 'iree' else f'`--target {name}`'}"
    known = f"| {title} | {compiled.made[name]:.1f} | {compiled.extra_kb(name):.0f} "
    if not error <= TOLERANCE:
        return f"{known}| nan | nan | nan | nan | nan | {error:.0e} (wrong) | {BOUND} |"
    ms = statistics.median(t[name] for t in turns)
    beside, bound = "–", "–"
    if name in TARGETS:
        beside, bound = spread(ratios(turns, name, TARGETS[name])), BOUND
    over = [f"{statistics.median(ratios(turns, name, other)):.2f}" for other in ("iree", "onnxruntime")]
    return f"{known}| {start:.1f} | {ms:.3g} | {beside} | {over[0]} | {over[1]} | {error:.0e} | {bound} |"


def bench_compile(args, names=NAMES, small=False, turns=TURNS):
    if not PYTHON.with_name("iree-compile").exists():
        return [MISSING]
    lines = list(HEAD)
    for name in names:
        compiled = Compiled(args, name, small)
        compiled.prepare()
        compiled.make()
        for made in compiled.names:  # builds kernels, reads pages
            timed(compiled.answer(made))
        measures = compiled.turns(turns)
        for made in compiled.names:
            lines.append(row(name, compiled, measures, made))
            print(lines[-1], flush=True)
    return lines
