"""First impressions, each with its limit: the sizes of executables and of the wheel, the start-up time of an
executable, the time to compile and to `import clave`."""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys

from bounds import NO_BOUND
from compile_bench import min_ms
from models_bench import Engines, Row, Table
from process import measured, seconds

ROOT = pathlib.Path(__file__).resolve().parent.parent
MNIST = ROOT / "examples/mnist/mnist.clv"
ALONE = Table({"ResNet-18": Row(1.0, (1, 1))}, ("torch",))
STARTS = 21
HEAD = ["| quantity | measured | limit |", "|---|---|---|"]


def processor_time():
    """Returns the CPU seconds of all finished child processes and their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def python_ms(program):
    command = [sys.executable, "-c", program]
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    return 1000 * seconds(lambda: subprocess.run(command, check=True, env=env), processor_time)


def import_ms():
    """Returns the milliseconds of `import clave`, without Python's own start."""
    return statistics.median(python_ms("import clave") - python_ms("pass") for _ in range(11))


def compile_program(args, program, to, *more):
    """Compiles a program and returns the CPU seconds."""
    command = [args.build / "clave", "compile", program, "-o", to, *more]
    return seconds(lambda: subprocess.run(command, check=True, stderr=subprocess.DEVNULL), processor_time)


def executable_rows(args, name, bounds, *more):
    """Measures MNIST: the shortest time from start to a file with the answer, and the size of the executable minus its
    weights."""
    import numpy as np

    exe, given, out = (args.work / f for f in ("limits.exe", "limits.in", "limits.out"))
    np.load(MNIST.with_name("digits") / "7.npy").tofile(given)
    compile_program(args, MNIST, exe, *more)
    weights = measured([args.build / "clave", "inspect", MNIST, "--json"])["constant_bytes"]
    return [
        f"| {name}: start to answer, ms | {min_ms([exe, given, out], STARTS):.1f} | {bounds[0]} |",
        f"| {name}: size without weights, KB | {(exe.stat().st_size - weights) / 1000:.0f} | {bounds[1]} |",
    ]


def large_row(args):
    own = argparse.Namespace(**(vars(args) | {"work": args.work / "limits"}))
    engines = Engines(own, "ResNet-18", table=ALONE)
    engines.export()
    taken = compile_program(args, engines.folder / "model.clv", args.work / "limits.exe")
    return f"| ResNet-18: compile time, CPU s per core | {taken / len(os.sched_getaffinity(0)):.1f} | 30 |"


def wheel_rows(args):
    """Returns the rows of the wheel, or no row unless `make wheel` has built it."""
    sizes = [f.stat().st_size for f in (args.build / "dist").glob("*.whl")]
    return [f"| the wheel, MB | {max(sizes) / 1e6:.1f} | 6 |"] if sizes else []


def bench_limits(args):
    args.work.mkdir(parents=True, exist_ok=True)
    return [
        *HEAD,
        f"| `import clave`, CPU ms | {import_ms():.0f} | 50 |",
        *executable_rows(args, "MNIST, one image, written out", (5, 300), "--dim", "batch=1"),
        *executable_rows(args, "MNIST, all batches, written out", (6, 800)),
        *executable_rows(args, "MNIST, all batches, the runtime carried", (NO_BOUND, NO_BOUND), "--method", "all"),
        large_row(args),
        *wheel_rows(args),
    ]
